import type { FastifyInstance } from 'fastify'

/** Headers that clients in browsers must read: payment, receipt, retry, media and rate limits of both families. */
const EXPOSED_HEADERS = [
  'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-Receipt-ID, X-Receipt-Token, X-Request-ID, Request-ID, X-Catalog-Version, X-Resolution',
  'Retry-After, Retry-After-Ms, X-Should-Retry, ETag, Allow, WWW-Authenticate',
  'X-Media-URL, X-Media-Expires-At, X-Audio-Duration-Ms, X-Input-Characters',
  'Content-Range, Accept-Ranges, Content-Disposition',
  'X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, X-RateLimit-Reset-Requests',
  'Anthropic-RateLimit-Requests-Limit, Anthropic-RateLimit-Requests-Remaining, Anthropic-RateLimit-Requests-Reset',
].join(', ')

/**
 * For requests that no page made: the list takes a tenth of a catalog's processor time. It means the same to browsers that
 * get such an answer from a shared cache, except to old ones that do not know it.
 */
const EVERY_HEADER = '*'

/**
 * Any header: SDKs add names, and Firefox and Safari ask for the `User-Agent` that some of them set. What official clients send
 * is listed as well, for browsers that do not know `*`, and because it does not cover Authorization.
 */
const ALLOWED_HEADERS = [
  '*, Content-Type, Authorization, Accept, If-None-Match, Range',
  'X-Idempotency-Key, PAYMENT-SIGNATURE, Access-Control-Expose-Headers',
  'X-API-Key, Anthropic-Version, Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access',
  'OpenAI-Organization, OpenAI-Project, OpenAI-Beta',
  'X-Stainless-Lang, X-Stainless-Package-Version, X-Stainless-OS, X-Stainless-Arch, X-Stainless-Runtime',
  'Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name',
  'X-Stainless-Runtime-Version, X-Stainless-Retry-Count, X-Stainless-Timeout, X-Stainless-Helper-Method',
].join(', ')

const ALLOWED_METHODS = 'GET, HEAD, POST'

const PREFLIGHT_MAX_AGE_SECONDS = '86400'

/** Returns the headers that let a page of any origin read an answer. `origin` is that of the request, if it names one. */
export function readableHeaders(origin: string | undefined) {
  return {
    'access-control-allow-origin': '*',
    'access-control-expose-headers': origin === undefined ? EVERY_HEADER : EXPOSED_HEADERS,
  }
}

/**
 * Allows browsers of any origin to call everything: there are no cookies that a foreign page could abuse. Preflights
 * get 204 for every path, so that the browser can read the actual response; other OPTIONS requests are answered like
 * any method that a route does not have. Register it after the request context, so that preflights get a request id and
 * are logged, and before the error handling, whose list of routes must not contain the catch-all OPTIONS route.
 */
export function addCors(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    const { origin, 'access-control-request-method': requestedMethod } = request.headers
    reply.headers(readableHeaders(origin))
    if (request.method !== 'OPTIONS') return done()
    reply
      .header('access-control-allow-methods', ALLOWED_METHODS)
      .header('access-control-allow-headers', ALLOWED_HEADERS)
      .header('access-control-max-age', PREFLIGHT_MAX_AGE_SECONDS)
    if (origin === undefined || requestedMethod === undefined) return reply.callNotFound()
    void reply.status(204).header('content-length', '0').send()
  })
  // Without a route, OPTIONS would not reach the hook.
  app.options('*', (_request, reply) => reply.callNotFound())
}
