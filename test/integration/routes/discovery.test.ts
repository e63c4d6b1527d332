import { describe, expect, it } from 'vitest'
import { availableCatalog, publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { addDiscoveryRoutes } from '../../../api/routes/discovery.ts'
import { composeApp, PUBLIC_BASE_URL, signer, terms } from './compose-app.ts'

const compose = (catalog = publishedCatalog) =>
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
const app = await compose()
const withoutSpeech = publishedCatalog.models.map(({ id }) => id).filter((id) => id !== 'speechvendor/flash-v2.5')
const reduced = await compose(availableCatalog(publishedCatalog, new Map(withoutSpeech.map((id) => [id, 'all']))))

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
    expect(document).toMatchObject({ version: 1, x402Version: 2, payment: { scheme: 'upto', network: 'eip155:8453' } })
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
