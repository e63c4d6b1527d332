import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { settingsSchema } from '../../../api/config.ts'
import { addPages } from '../../../api/routes/pages.ts'
import { composeApp, PUBLIC_BASE_URL, terms } from './compose-app.ts'

let today = new Date('2026-11-22T23:59:59.900Z')
const compose = (catalog = publishedCatalog, securityContact?: string) =>
  composeApp((app) =>
    addPages(app, { catalog: () => catalog, terms, publicBaseUrl: PUBLIC_BASE_URL, securityContact, now: () => today }),
  )
const CONTACT = 'mailto:security@farebox.example'
const app = await compose(publishedCatalog, CONTACT)
const withoutSpeech = publishedCatalog.models.map(({ id }) => id).filter((id) => id !== 'speechvendor/flash-v2.5')
const reduced = await compose(availableCatalog(publishedCatalog, new Map(withoutSpeech.map((id) => [id, 'all']))))
/** Returns the front page of an operator who serves only one model. */
async function frontPageOf(model: string): Promise<string> {
  const served = await compose(availableCatalog(publishedCatalog, new Map([[model, 'all']])))
  return (await served.inject('/')).body
}
const read = async (url: string, accept?: string) => app.inject({ url, ...(accept && { headers: { accept } }) })

describe.each([
  ['/', 'text/html; charset=utf-8'],
  ['/llms.txt', 'text/plain; charset=utf-8'],
  ['/SKILL.md', 'text/markdown; charset=utf-8'],
  ['/skill.md', 'text/markdown; charset=utf-8'],
  ['/robots.txt', 'text/plain; charset=utf-8'],
  ['/.well-known/security.txt', 'text/plain; charset=utf-8'],
])('%s', (url, type) => {
  it('a page has its content type, an ETag and a lifetime, for GET and HEAD', async () => {
    for (const method of ['GET', 'HEAD'] as const) {
      const answer = await app.inject({ method, url })
      expect(answer.statusCode).toBe(200)
      expect(answer.headers).toMatchObject({ 'content-type': type, 'cache-control': 'public, max-age=300' })
      expect(answer.headers.etag).toMatch(/^"[0-9a-f]{32}"$/)
    }
  })

  it('a page is a 304 for a matching If-None-Match', async () => {
    const { headers } = await app.inject(url)
    expect((await app.inject({ url, headers: { 'if-none-match': String(headers.etag) } })).statusCode).toBe(304)
  })
})

describe('the front page', () => {
  it.each([
    [undefined, 'text/html'],
    ['*/*', 'text/html'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'text/html'],
    ['application/json', 'text/html'],
    ['text/markdown', 'text/markdown'],
    ['text/markdown, text/html;q=0.9, */*;q=0.1', 'text/markdown'],
    ['text/plain', 'text/plain'],
    ['text/html;q=0, text/*', 'text/markdown'],
    ['nonsense;;;q=x,,', 'text/html'],
  ])('the front page for Accept %s is %s, and caches keep the types apart', async (accept, type) => {
    const { headers, body } = await read('/', accept)
    expect([headers['content-type'], headers['vary']]).toEqual([`${type}; charset=utf-8`, 'Accept'])
    expect(body === (await read('/llms.txt')).body).toBe(type !== 'text/html')
  })

  it('the front page loads nothing from another host, and its policy allows only its own style', async () => {
    const { body, headers } = await read('/')
    const policy = String(headers['content-security-policy'])
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(body) ?? []
    expect(style).not.toMatch(/@import|url\(/)
    expect(policy).toContain("default-src 'none'; ")
    expect(policy).toContain(`style-src 'sha256-${createHash('sha256').update(style).digest('base64')}';`)
    expect(policy).not.toMatch(/unsafe|script-src|https?:/)
    expect(body).not.toMatch(/<script|<iframe|<img|<form|\sstyle=|\son\w+=/)
    const loaded = [...body.matchAll(/<link rel="icon" href="([^"]+)"|\ssrc="([^"]+)"/g)].map(([, icon]) => icon)
    expect(loaded).toEqual(['/favicon.svg'])
  })

  it('the front page fits a window of 360 pixels, follows the color scheme, and scrolls by keyboard', async () => {
    const { body } = await read('/')
    expect(body).toContain('<meta name="viewport" content="width=device-width">')
    expect(body).toContain('color-scheme:light dark')
    expect(body).not.toMatch(/(?:^|[^-])(?:width|min-width):\s*\d+px/)
    // Whatever is wider than the window scrolls by itself, and takes the focus for it.
    expect(body.match(/<pre /g)?.length).toBe(
      body.match(/<pre tabindex="0" role="region" aria-label="[^"]+">/g)?.length,
    )
    expect(Buffer.byteLength(body)).toBeLessThan(8192)
  })

  it('the front page lists the available endpoints with their price of a call', async () => {
    const { body } = await read('/')
    for (const { path } of operations) expect(body).toContain(`<code>POST ${path}</code>`)
    for (const price of ['0.002 to 0.766952 USD', '<td>0.035 USD', '0.005034 to 0.122 USD'])
      expect(body).toContain(price)
    expect((await reduced.inject('/')).body).not.toContain('/v1/audio/speech')
  })

  it('the front page’s commands call a model that is available', async () => {
    expect(await frontPageOf('textmodel-2.5-pro')).toContain('&quot;model&quot;:&quot;textmodel-2.5-pro&quot;')
    expect(await frontPageOf('speechvendor/flash-v2.5')).toContain('https://farebox.example/v1/audio/speech \\')
  })
})

describe('/llms.txt', () => {
  it('/llms.txt explains how to pay, and lists each available endpoint with its price and models', async () => {
    const { body } = await read('/llms.txt')
    for (const { path } of operations) expect(body).toContain(`POST ${path} (`)
    for (const text of ['x-idempotency-key', 'PAYMENT-REQUIRED', 'PAYMENT-SIGNATURE', '0.035 USD', '/openapi.json'])
      expect(body).toContain(text)
  })

  it('/llms.txt says how to approve once, and how to price a recording before its upload', async () => {
    const { body } = await read('/llms.txt')
    for (const text of [
      'POST /v1/allowances',
      'GET /v1/allowances?owner=',
      'Permit2',
      '"challenge": true',
      'duration_ms',
    ])
      expect(body).toContain(text)
  })

  it('/llms.txt omits unavailable operations', async () => {
    expect((await reduced.inject('/llms.txt')).body).not.toContain('POST /v1/audio/speech')
  })
})

describe('/SKILL.md', () => {
  it('/SKILL.md has a name and a description, and teaches quote, payment and receipt', async () => {
    const { body } = await read('/SKILL.md')
    const [, frontmatter = ''] = /^---\n([^]*?)\n---\n/.exec(body) ?? []
    expect(frontmatter).toMatch(/^name: farebox\ndescription: .{40,1024}$/)
    const order = ['/v1/quotes', 'PAYMENT-REQUIRED', 'PAYMENT-SIGNATURE', '/v1/receipts/'].map((text) =>
      body.indexOf(text),
    )
    expect(Math.min(...order)).toBeGreaterThan(0)
    expect((await read('/skill.md')).body).toBe(body)
  })

  it('/SKILL.md says the same as /llms.txt, paragraph by paragraph', async () => {
    const [skill, llms] = [(await read('/SKILL.md')).body, (await read('/llms.txt')).body]
    const shared = llms.split('\n\n').filter((paragraph) => paragraph.length > 300 && !paragraph.includes('curl'))
    expect(shared.length).toBeGreaterThan(4)
    for (const paragraph of shared) expect(skill).toContain(paragraph)
  })
})

describe('/.well-known/security.txt', () => {
  it('/.well-known/security.txt names the operator’s contact and when it expires, which moves on by the day', async () => {
    const { body } = await read('/.well-known/security.txt')
    expect(body.split('\n')).toEqual([
      `Contact: ${CONTACT}`,
      'Expires: 2027-02-20T00:00:00.000Z',
      'Preferred-Languages: en',
      `Canonical: ${PUBLIC_BASE_URL}/.well-known/security.txt`,
      '',
    ])
    today = new Date('2026-11-23T00:00:00Z')
    expect((await read('/.well-known/security.txt')).body).toContain('Expires: 2027-02-21T00:00:00.000Z')
  })

  it('/.well-known/security.txt does not exist without a contact', async () => {
    expect((await reduced.inject('/.well-known/security.txt')).statusCode).toBe(404)
  })

  it.each([
    ['mailto:security@farebox.example', true],
    ['https://farebox.example/security', true],
    ['tel:+1-201-555-0123', true],
    ['security@farebox.example', false],
    ['http://farebox.example/security', false],
    ['mailto:a@b.example\nContact: mailto:c@d.example', false],
    ['https://farebox.example/a b', false],
    ['', false],
  ])('SECURITY_CONTACT %j is accepted: %s', (contact, isAccepted) => {
    expect(settingsSchema.shape.SECURITY_CONTACT.safeParse(contact).success).toBe(isAccepted)
  })
})

it('robots.txt keeps crawlers away from capabilities', async () => {
  expect((await read('/robots.txt')).body).toBe('User-agent: *\nDisallow: /media/\nDisallow: /v1/receipts/\n')
})
