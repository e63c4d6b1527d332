import type { FastifyInstance } from 'fastify'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** Long enough to save repeats within a session, short enough that a new catalog is seen soon. */
const MAXIMUM_AGE_SECONDS = 300

const ETAG_DIGITS = 32

/**
 * Adds `GET` and `HEAD` of a body that does not change while the process runs, with a strong `ETag` of the content,
 * `Cache-Control`, and 304 when the client already has it (RFC 9110, 13.1.2).
 */
export function addStaticResponse(
  app: FastifyInstance,
  path: string,
  { contentType, body }: { contentType: string; body: string },
): void {
  const etag = `"${sha256Hex(body).slice(0, ETAG_DIGITS)}"`
  const cacheControl = `public, max-age=${MAXIMUM_AGE_SECONDS}`
  const bytes = Buffer.from(body)
  app.get(path, (request, reply) => {
    reply.headers({ etag, 'cache-control': cacheControl })
    if (matches(request.headers['if-none-match'], etag)) return reply.status(304).send()
    return reply.header('content-type', contentType).send(bytes)
  })
}

/** Adds a static response with `value` as JSON. */
export function addStaticJson(app: FastifyInstance, path: string, value: unknown): void {
  addStaticResponse(app, path, { contentType: 'application/json; charset=utf-8', body: JSON.stringify(value) })
}

/** Compares weakly, as If-None-Match requires: caches and proxies mark tags as weak when they recompress. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(etag)
}
