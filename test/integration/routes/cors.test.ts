import { describe, expect, it } from 'vitest'
import { composeLists } from './compose-app.ts'

const app = await composeLists()
const ORIGIN = 'https://page.example'

function preflight(url: string) {
  const headers = {
    origin: ORIGIN,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'content-type',
  }
  return app.inject({ method: 'OPTIONS', url, headers })
}

describe('a browser of any origin', () => {
  it('a browser of any origin may read every response, errors included', async () => {
    for (const url of ['/v1/models', '/v1/nowhere']) {
      const { headers } = await app.inject({ url, headers: { origin: ORIGIN } })
      expect(headers['access-control-allow-origin']).toBe('*')
      expect(headers['access-control-allow-credentials']).toBeUndefined()
    }
  })

  it.each([
    'payment-required',
    'payment-response',
    'x-receipt-id',
    'x-receipt-token',
    'x-account-session',
    'www-authenticate',
    'x-request-id',
    'request-id',
    'x-catalog-version',
    'retry-after',
    'retry-after-ms',
    'x-should-retry',
    'etag',
    'x-media-url',
    'x-ratelimit-remaining-requests',
    'anthropic-ratelimit-requests-remaining',
  ])('a browser of any origin may read the header %s', async (name) => {
    const { headers } = await app.inject({ url: '/v1/models', headers: { origin: ORIGIN } })
    const exposed = String(headers['access-control-expose-headers']).toLowerCase().split(', ')
    expect(exposed).toContain(name)
  })

  it('a browser may read every header of an answer that a cache kept from a request without an origin', async () => {
    const { headers } = await app.inject({ url: '/v1/models' })
    expect(headers).toMatchObject({ 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' })
    expect(headers['vary']).toBeUndefined()
  })

  it('answers OPTIONS that are no preflight like a method that the route does not have', async () => {
    expect((await app.inject({ method: 'OPTIONS', url: '/v1/models' })).statusCode).toBe(405)
    expect((await app.inject({ method: 'OPTIONS', url: '/v1/nowhere' })).statusCode).toBe(404)
  })

  it.each([
    'x-idempotency-key',
    'payment-signature',
    'sign-in-with-x',
    'content-type',
    'authorization',
    'x-api-key',
    'anthropic-version',
    'x-stainless-lang',
    'access-control-expose-headers',
    'if-none-match',
  ])('a browser of any origin may send the header %s', async (name) => {
    const answer = await preflight('/v1/models')
    expect(String(answer.headers['access-control-allow-headers']).toLowerCase().split(', ')).toContain(name)
  })

  it.each(['/v1/models', '/v1/chat/completions', '/v1/nowhere'])('a preflight of %s is a 204', async (url) => {
    const answer = await preflight(url)
    expect({ status: answer.statusCode, body: answer.body }).toEqual({ status: 204, body: '' })
    expect(answer.headers['access-control-allow-methods']).toBe('GET, HEAD, POST')
    expect(answer.headers['access-control-max-age']).toBe('86400')
    expect(answer.headers['x-request-id']).toBeDefined()
  })
})

describe('other methods', () => {
  it('OPTIONS on a known route without a preflight is a 405 with Allow', async () => {
    const answer = await app.inject({ method: 'OPTIONS', url: '/v1/models' })
    expect(answer.statusCode).toBe(405)
    expect(String(answer.headers.allow).split(', ')).toEqual(expect.arrayContaining(['GET', 'HEAD']))
  })

  it('OPTIONS on an unknown route is a 404', async () => {
    const answer = await app.inject({ method: 'OPTIONS', url: '/v1/nowhere' })
    expect(answer.statusCode).toBe(404)
    expect(answer.json()).toMatchObject({ type: 'error', error: { code: 'not_found' } })
  })

  it.each(['POST', 'PUT', 'DELETE', 'PATCH'] as const)('%s on a list is a 405 with Allow', async (method) => {
    const answer = await app.inject({ method, url: '/v1/models' })
    expect(answer.statusCode).toBe(405)
    expect(String(answer.headers.allow).split(', ').toSorted()).toEqual(['GET', 'HEAD'])
    expect(answer.json()).toMatchObject({ error: { code: 'method_not_allowed', param: null, retry: 'never' } })
  })

  it('GET on an unknown route is a 404 with the request id in both headers', async () => {
    const answer = await app.inject('/v1/nowhere')
    expect(answer.statusCode).toBe(404)
    const { request_id: requestId, error } = answer.json()
    expect(error).toMatchObject({ code: 'not_found', type: 'not_found_error' })
    expect([answer.headers['x-request-id'], answer.headers['request-id']]).toEqual([requestId, requestId])
  })
})
