import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** Long enough to save repeats within a session, short enough that a new catalog is seen soon. */
const MAXIMUM_AGE_SECONDS = 300

const ETAG_DIGITS = 32

/** A body that is sent many times, with its strong validator. */
export interface Representation {
  readonly contentType: string
  readonly bytes: Buffer
  readonly etag: string
}

/** Returns a text or bytes, ready to be sent. */
export function representationOf(contentType: string, body: string | Buffer): Representation {
  return { contentType, bytes: Buffer.from(body), etag: `"${sha256Hex(body).slice(0, ETAG_DIGITS)}"` }
}

/** Returns `value` as JSON, ready to be sent. */
export function jsonRepresentation(value: unknown): Representation {
  return representationOf('application/json; charset=utf-8', JSON.stringify(value))
}

/**
 * Adds `GET` and `HEAD` of the representation that `current` returns, with a strong `ETag` of the content,
 * `Cache-Control`, and 304 when the client already has it (RFC 9110, 13.1.2). `current` may throw.
 */
export function addCachedResponse(
  app: FastifyInstance,
  path: string,
  current: (request: FastifyRequest) => Representation,
  headers: Readonly<Record<string, string>> = {},
): void {
  const cacheControl = `public, max-age=${MAXIMUM_AGE_SECONDS}`
  app.get(path, (request, reply) => sendRepresentation(request, reply.headers(headers), current(request), cacheControl))
}

/** Sends a representation, or 304 when the client already has it. */
export function sendRepresentation(
  request: FastifyRequest,
  reply: FastifyReply,
  { contentType, bytes, etag }: Representation,
  cacheControl: string,
): FastifyReply {
  reply.header('etag', etag).header('cache-control', cacheControl)
  if (matches(request.headers['if-none-match'], etag)) return reply.status(304).send()
  return reply.header('content-type', contentType).send(bytes)
}

/** Adds a response whose body does not change while the process runs. */
export function addStaticResponse(
  app: FastifyInstance,
  path: string,
  { contentType, body }: { contentType: string; body: string },
): void {
  const representation = representationOf(contentType, body)
  addCachedResponse(app, path, () => representation)
}

/** Adds a static response with `value` as JSON. */
export function addStaticJson(app: FastifyInstance, path: string, value: unknown): void {
  const representation = jsonRepresentation(value)
  addCachedResponse(app, path, () => representation)
}

/** Compares weakly, as If-None-Match requires: caches and proxies mark tags as weak when they recompress. */
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(etag)
}
