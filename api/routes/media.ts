import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import { hashMediaToken, type ServedMedia } from '#shared/media/media.ts'
import type { ByteRange, ObjectLinks, ObjectStore, OpenedObject } from '#shared/media/object-store.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'open'>
  /** Given, callers are sent to the object store's own address. */
  readonly mediaLinks: ObjectLinks | null
  readonly limitRate: RateLimiter
  readonly now: () => Date
}

/** A link that leaks is of no use a minute later. */
const LINK_LIFETIME_SECONDS = 60

/** The URL is a capability: it must not leak through referrers, sniffing or shared caches. */
const capabilityHeaders = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'cross-origin',
}

/** `GET /media/{token}`: result media for whoever holds its URL, until its expiry to the second; then 404. */
export function addMediaRoutes(app: FastifyInstance, { store, media, mediaLinks, limitRate, now }: Dependencies): void {
  app.get<{ Params: { token: string } }>('/media/:token', async (request, reply) => {
    limitRate(request, reply, 'openai')
    const found = await store.findMedia(hashMediaToken(request.params.token))
    if (!found) throw new AppError('not_found', { message: 'There is no such media, or it has expired.' })
    if (mediaLinks) return reply.headers(capabilityHeaders).redirect(await linkTo(mediaLinks, found, now()), 302)
    const range = requestedRange(request.headers.range, found.bytes)
    const body = request.method === 'HEAD' || range === 'unsatisfiable' ? null : await openObject(media, found, range)
    reply.headers({
      ...capabilityHeaders,
      'content-type': found.contentType,
      'accept-ranges': 'bytes',
      etag: `"${found.sha256}"`,
      'content-disposition': 'attachment',
    })
    if (range === 'unsatisfiable') return reply.status(416).header('content-range', `bytes */${found.bytes}`).send()
    if (range !== null) reply.status(206).header('content-range', `bytes ${range[0]}-${range[1]}/${found.bytes}`)
    // An empty stream: fastify would take the length of a HEAD answer from any other body.
    return reply.header('content-length', sizeOf(range, found)).send(body ?? Readable.from([]))
  })
}

function sizeOf(range: ByteRange | null, { bytes }: ServedMedia): number {
  return range === null ? bytes : range[1] - range[0] + 1
}

/** Never good for longer than the media themselves. */
async function linkTo(links: ObjectLinks, { objectKey, contentType, expiresAt }: ServedMedia, now: Date) {
  const left = Math.floor((expiresAt.getTime() - now.getTime()) / 1000)
  const lifetimeSeconds = Math.max(1, Math.min(left, LINK_LIFETIME_SECONDS))
  return await links.link(objectKey, { contentType, lifetimeSeconds })
}

async function openObject(
  media: Pick<ObjectStore, 'open'>,
  found: ServedMedia,
  range: ByteRange | null,
): Promise<Readable> {
  let opened: OpenedObject | null
  try {
    opened = await media.open(found.objectKey, range ?? undefined)
  } catch (cause) {
    throw new AppError('media_unavailable', { cause })
  }
  if (!opened) throw new AppError('media_unavailable', { cause: new Error('recorded media has no object') })
  if (opened.bytes === sizeOf(range, found)) return opened.body
  opened.body.destroy()
  throw new AppError('media_unavailable', { cause: new Error('recorded media has another size') })
}

/** First and last byte of a single range, both included. Several ranges and other units are answered with the whole. */
function requestedRange(header: string | undefined, length: number): ByteRange | 'unsatisfiable' | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [, from = '', to = ''] = match
  const first = from === '' ? Math.max(length - Number(to), 0) : Number(from)
  const last = from === '' || to === '' ? length - 1 : Math.min(Number(to), length - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return null
  return first <= last ? [first, last] : 'unsatisfiable'
}
