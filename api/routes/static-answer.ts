import type { FastifyInstance } from 'fastify'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** Long enough to spare the repeats of one session, short enough that a new catalog is seen soon. */
const MAXIMUM_AGE_SECONDS = 300

const ETAG_DIGITS = 32

/**
 * `GET` and `HEAD` of an answer that does not change while the process lives: a strong `ETag` from the content,
 * `Cache-Control`, and 304 for whoever has it already (RFC 9110, 13.1.2).
 */
export function addStaticAnswer(
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

/** As `addStaticAnswer`, for a value that is sent as JSON. */
export function addStaticJson(app: FastifyInstance, path: string, value: unknown): void {
  addStaticAnswer(app, path, { contentType: 'application/json; charset=utf-8', body: JSON.stringify(value) })
}

/** If-None-Match compares weakly: caches and proxies mark tags as weak when they recompress. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(etag)
}
