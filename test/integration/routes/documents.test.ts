import { createHash } from 'node:crypto'
import { decodePaymentRequiredHeader, encodePaymentRequiredHeader } from '@x402/core/http'
import { describe, expect, it } from 'vitest'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { settingsSchema } from '../../../api/config.ts'
import { isProbe, mayBeProbe, renderProbeChallenge } from '../../../api/paid-request/quote/probe-challenge.ts'
import { addDiscoveryRoutes } from '../../../api/routes/discovery.ts'
import { addPages } from '../../../api/routes/pages.ts'
import { fixedCatalogs } from '../../support/http/fixed-catalogs.ts'
import { composeApp, listings, PUBLIC_BASE_URL, signer, terms } from './compose-app.ts'

const CONTACT = 'mailto:security@farebox.example'
const withoutSpeech = publishedCatalog.models.map(({ id }) => id).filter((id) => id !== 'speechvendor/flash-v2.5')
const dependencies = { catalogs: fixedCatalogs(), terms, listings }

describe('pages for people and agents', async () => {
  let today = new Date('2026-11-22T23:59:59.900Z')
  const compose = (catalog = publishedCatalog, securityContact?: string) =>
    composeApp((app) =>
      addPages(app, {
        catalog: () => catalog,
        terms,
        publicBaseUrl: PUBLIC_BASE_URL,
        securityContact,
        now: () => today,
      }),
    )
  const app = await compose(publishedCatalog, CONTACT)
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
})

const composeDiscovery = (catalog = publishedCatalog) =>
  composeApp((app) =>
    addDiscoveryRoutes(app, {
      catalog: () => catalog,
      publishedCatalog: () => publishedCatalog,
      operations,
      terms,
      signer,
      publicBaseUrl: PUBLIC_BASE_URL,
      contactEmail: 'operator@farebox.example',
    }),
  )

describe('documents for discovery', async () => {
  const app = await composeDiscovery()
  const reduced = await composeDiscovery(
    availableCatalog(publishedCatalog, new Map(withoutSpeech.map((id) => [id, 'all']))),
  )
  describe.each([
    ['/openapi.json', 'application/json; charset=utf-8'],
    ['/.well-known/x402', 'application/json; charset=utf-8'],
    ['/.well-known/did.json', 'application/json; charset=utf-8'],
    ['/.well-known/jwks.json', 'application/json; charset=utf-8'],
    ['/favicon.svg', 'image/svg+xml'],
  ])('%s', (url, type) => {
    it('a discovery document has its content type, an ETag and a lifetime, for GET and HEAD', async () => {
      for (const method of ['GET', 'HEAD'] as const) {
        const answer = await app.inject({ method, url })
        expect(answer.statusCode).toBe(200)
        expect(answer.headers).toMatchObject({ 'content-type': type, 'cache-control': 'public, max-age=300' })
        expect(answer.headers.etag).toMatch(/^"[0-9a-f]{32}"$/)
      }
    })

    it('a discovery document is a 304 for a matching If-None-Match', async () => {
      const { headers } = await app.inject(url)
      expect((await app.inject({ url, headers: { 'if-none-match': String(headers.etag) } })).statusCode).toBe(304)
    })
  })

  describe('/.well-known/x402', () => {
    it('/.well-known/x402 lists the paid resources with their minimum and maximum price', async () => {
      const document = (await app.inject('/.well-known/x402')).json()
      expect(document).toMatchObject({
        version: 1,
        x402Version: 2,
        payment: { scheme: 'upto', network: 'eip155:8453' },
      })
      expect(document.resources).toEqual(operations.map(({ path }) => `${PUBLIC_BASE_URL}${path}`))
      expect(document.endpoints[0]).toEqual({
        url: `${PUBLIC_BASE_URL}/v1/chat/completions`,
        method: 'POST',
        operation: 'createChatCompletion',
        description: expect.stringMatching(/./),
        price: { currency: 'USD', minimum: '0.002', maximum: '0.766952' },
      })
    })

    it('/.well-known/x402 omits unavailable operations', async () => {
      const { resources } = (await reduced.inject('/.well-known/x402')).json()
      expect(resources).not.toContain(`${PUBLIC_BASE_URL}/v1/audio/speech`)
      expect(resources).toHaveLength(operations.length - 1)
    })
  })

  describe('/openapi.json', () => {
    it('/openapi.json describes the whole interface, regardless of availability', async () => {
      expect((await reduced.inject('/openapi.json')).body).toBe((await app.inject('/openapi.json')).body)
    })
  })

  describe('/docs', () => {
    it('is sent once to a client that keeps it: its bundle is megabytes', async () => {
      for (const path of ['/docs/', '/docs/js/scalar.js']) {
        const { etag } = (await app.inject(path)).headers
        expect(etag).toMatch(/^"[0-9a-f]+"$/)
        const again = await app.inject({ path, headers: { 'if-none-match': etag } })
        expect([again.statusCode, again.body]).toEqual([304, ''])
      }
    })

    it('/docs redirects to a page that loads nothing from another host', async () => {
      const redirect = await app.inject('/docs')
      expect([redirect.statusCode, redirect.headers.location]).toEqual([301, '/docs/'])
      const page = await app.inject('/docs/')
      expect([page.statusCode, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
      const sources = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source)
      expect(sources).toEqual(['js/scalar.js'])
      expect(page.body).toContain('/openapi.json')
      expect(page.headers['content-security-policy']).toContain(`default-src 'none'`)
      expect(page.headers['content-security-policy']).toContain(`connect-src 'self' ${PUBLIC_BASE_URL};`)
    })

    it('/docs serves its own script, cacheable', async () => {
      const script = await app.inject('/docs/js/scalar.js')
      expect(script.statusCode).toBe(200)
      expect(script.headers['content-type']).toContain('javascript')
      expect(script.headers['cache-control']).toBe('public, max-age=3600')
      expect(script.rawPayload.length).toBeGreaterThan(1_000_000)
    })
  })
})

describe('a probe', () => {
  it.each([undefined, {}])('a request without a key and with the body %j is a probe', (body) => {
    expect(isProbe({}, body)).toBe(true)
  })

  it.each([[{ model: 'x' }], [[]], [null], ['{}'], [0], [false]])(
    'a request with the body %j is not a probe',
    (body) => {
      expect(isProbe({}, body)).toBe(false)
    },
  )

  it.each(['x-idempotency-key', 'payment-signature'])('a request with the header %s is not a probe', (name) => {
    expect(isProbe({ [name]: '' }, {})).toBe(false)
  })
})

describe('mayBeProbe, before the body is read', () => {
  it.each([{}, { 'content-length': '0' }, { 'content-length': '2', 'content-type': 'application/json' }])(
    'a request with the headers %j may be a probe',
    (headers) => {
      expect(mayBeProbe(headers)).toBe(true)
    },
  )

  it.each([
    { 'content-length': '65' },
    { 'content-length': 'many' },
    { 'transfer-encoding': 'chunked' },
    { 'x-idempotency-key': 'key' },
    { 'payment-signature': 'e30=' },
  ])('a request with the headers %j is not a probe', (headers) => {
    expect(mayBeProbe(headers)).toBe(false)
  })
})

describe.each(operations)('the generic challenge of $id', (operation) => {
  const { status, headers, body: json } = renderProbeChallenge(dependencies, operation, 'request-1')
  const body = JSON.parse(json) as Record<string, unknown>
  const required = decodePaymentRequiredHeader(headers['payment-required'])

  it('a probe challenge is a 402 with the route’s published maximum in header and body [spec L3a]', () => {
    const maxima: Record<string, string> = {
      createChatCompletion: '0.766952',
      createMessage: '0.766952',
      createImageGeneration: '0.035',
      createSpeech: '0.441',
      createTranscription: '0.122',
    }
    const amount = maxima[operation.id]
    expect(status).toBe(402)
    expect(headers['cache-control']).toBe('no-store')
    expect(body).toMatchObject({
      error: 'Payment Required',
      message: expect.stringContaining(`${amount} USDC`),
      price: { amount, currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
      request_id: 'request-1',
    })
    expect(Number(required.accepts[0]?.amount)).toBe(Math.round(Number(amount) * 1_000_000))
  })

  it('a probe challenge contains resource and terms, and is not bound to a request [spec L4a, A3, O24]', () => {
    expect(required).toMatchObject({
      x402Version: 2,
      resource: { url: `${PUBLIC_BASE_URL}${operation.path}`, mimeType: 'application/json' },
      accepts: [{ scheme: 'upto', payTo: terms.payTo, maxTimeoutSeconds: terms.maxTimeoutSeconds }],
    })
    expect(required.accepts[0]?.extra).toEqual({
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: terms.facilitators[0],
    })
    expect(body['accepts']).toEqual(required.accepts)
  })

  it('a probe challenge has the same header as @x402/core encodes', () => {
    expect(headers['payment-required']).toBe(encodePaymentRequiredHeader(required))
  })
})

describe('the challenge of an empty request', () => {
  it('an operation of an unavailable category has no challenge', () => {
    const [operation] = operations
    if (!operation) throw new Error('there are no operations')
    const catalogs = fixedCatalogs(availableCatalog(publishedCatalog, new Map()))
    expect(() => renderProbeChallenge({ ...dependencies, catalogs }, operation, 'request-1')).toThrow(
      expect.objectContaining({ code: 'model_unavailable' }),
    )
  })
})
