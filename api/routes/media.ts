import type { FastifyInstance } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import { hashMediaToken } from '#shared/media/media.ts'
import type { ObjectStore } from '#shared/media/object-store.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'get'>
  readonly limitRate: RateLimiter
}

/** `GET /media/{token}`: result media for whoever holds its URL, until its expiry to the second; then 404. */
export function addMediaRoutes(app: FastifyInstance, { store, media, limitRate }: Dependencies): void {
  app.get<{ Params: { token: string } }>('/media/:token', async (request, reply) => {
    limitRate(request, reply, 'openai')
    const found = await store.findMedia(hashMediaToken(request.params.token))
    if (!found) throw new AppError('not_found', { message: 'There is no such media, or it has expired.' })
    const bytes = await readObject(media, found.objectKey)
    reply.headers({
      'content-type': found.contentType,
      'accept-ranges': 'bytes',
      etag: `"${found.sha256}"`,
      // The URL is a capability: it must not leak through referrers, sniffing or shared caches.
      'cache-control': 'private, no-store',
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'content-disposition': 'attachment',
      'cross-origin-resource-policy': 'cross-origin',
    })
    const range = requestedRange(request.headers.range, bytes.length)
    if (range === null) return reply.send(bytes)
    if (range === 'unsatisfiable') return reply.status(416).header('content-range', `bytes */${bytes.length}`).send()
    const [first, last] = range
    reply.status(206).header('content-range', `bytes ${first}-${last}/${bytes.length}`)
    return reply.send(bytes.subarray(first, last + 1))
  })
}

async function readObject(media: Pick<ObjectStore, 'get'>, objectKey: string): Promise<Buffer> {
  let bytes: Uint8Array | null
  try {
    bytes = await media.get(objectKey)
  } catch (cause) {
    throw new AppError('media_unavailable', { cause })
  }
  if (!bytes) throw new AppError('media_unavailable', { cause: new Error('recorded media has no object') })
  return Buffer.from(bytes)
}

/** First and last byte of a single range, both included. Several ranges and other units are answered with the whole. */
function requestedRange(header: string | undefined, length: number): [number, number] | 'unsatisfiable' | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [, from = '', to = ''] = match
  const first = from === '' ? Math.max(length - Number(to), 0) : Number(from)
  const last = from === '' || to === '' ? length - 1 : Math.min(Number(to), length - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return null
  return first <= last ? [first, last] : 'unsatisfiable'
}
