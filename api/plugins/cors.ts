import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'

/** Headers that clients in browsers must read: payment, receipt, retry, media and rate limits of both families. */
const EXPOSED_HEADERS = [
  'PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-Receipt-ID, X-Receipt-Token, X-Request-ID, Request-ID, X-Catalog-Version, X-Resolution',
  'X-Account-Session, Retry-After, Retry-After-Ms, X-Should-Retry, ETag, Allow, WWW-Authenticate',
  'X-Media-URL, X-Media-Expires-At, X-Audio-Duration-Ms, X-Input-Characters',
  'Content-Range, Accept-Ranges, Content-Disposition',
  'X-RateLimit-Limit-Requests, X-RateLimit-Remaining-Requests, X-RateLimit-Reset-Requests',
  'Anthropic-RateLimit-Requests-Limit, Anthropic-RateLimit-Requests-Remaining, Anthropic-RateLimit-Requests-Reset',
].join(', ')

/** Headers that official clients send, listed one by one because `*` does not cover Authorization. */
const ALLOWED_HEADERS = [
  'Content-Type, Authorization, Accept, If-None-Match, Range',
  'X-Idempotency-Key, PAYMENT-SIGNATURE, SIGN-IN-WITH-X, Access-Control-Expose-Headers',
  'X-API-Key, Anthropic-Version, Anthropic-Beta, Anthropic-Dangerous-Direct-Browser-Access',
  'OpenAI-Organization, OpenAI-Project, OpenAI-Beta',
  'X-Stainless-Lang, X-Stainless-Package-Version, X-Stainless-OS, X-Stainless-Arch, X-Stainless-Runtime',
  'Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name',
  'X-Stainless-Runtime-Version, X-Stainless-Retry-Count, X-Stainless-Timeout, X-Stainless-Helper-Method',
].join(', ')

const PREFLIGHT_MAX_AGE_SECONDS = 86_400

/**
 * Allows browsers of any origin to call everything: there are no cookies that a foreign page could abuse. Preflights
 * get 204 for every path, so that the browser can read the actual response; other OPTIONS requests are answered like
 * any method that a route does not have. Register it after the request context, so that preflights get a request id and
 * are logged, and before the error handling, whose list of routes must not contain the catch-all OPTIONS route.
 */
export async function addCors(app: FastifyInstance): Promise<void> {
  await app.register(cors, {
    origin: '*',
    methods: ['GET', 'HEAD', 'POST'],
    allowedHeaders: ALLOWED_HEADERS,
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_MAX_AGE_SECONDS,
    strictPreflight: false,
    preflightContinue: true,
  })
  app.addHook('onRequest', (request, reply, done) => {
    if (request.method !== 'OPTIONS') return done()
    const { origin, 'access-control-request-method': requestedMethod } = request.headers
    if (origin !== undefined && requestedMethod !== undefined)
      return void reply.status(204).header('content-length', '0').send()
    return reply.callNotFound()
  })
}
