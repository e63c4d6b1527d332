import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '#shared/errors/app-error.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { hashMediaToken, type ServedMedia } from '#shared/media/media.ts'
import type { ByteRange, ObjectLinks, ObjectStore, OpenedObject } from '#shared/media/object-store.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'

interface Dependencies {
  readonly store: Pick<AcceptanceStore, 'findMedia'>
  readonly media: Pick<ObjectStore, 'open'>
  /** When set, callers are redirected to the object store. */
  readonly mediaLinks: ObjectLinks | null
  readonly limitRate: RateLimiter
  readonly now: () => Date
}

/** Short, so that a leaked link is soon useless. */
const LINK_LIFETIME_SECONDS = 60

/** The URL is a capability: it must not leak through referrers, sniffing or shared caches. */
const CAPABILITY_HEADERS = {
  'cache-control': 'private, no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'cross-origin',
}

/** Adds `GET /media/{token}`, a capability URL for result media; 404 from the second of its expiry. */
export function addMediaRoutes(app: FastifyInstance, { store, media, mediaLinks, limitRate, now }: Dependencies): void {
  app.get<{ Params: { token: string } }>('/media/:token', async (request, reply) => {
    limitRate(request, reply, 'openai')
    const found = await store.findMedia(hashMediaToken(request.params.token))
    if (!found) throw new AppError('not_found', { message: 'There is no such media, or it has expired.' })
    if (mediaLinks) return reply.headers(CAPABILITY_HEADERS).redirect(await linkTo(mediaLinks, found, now()), 302)
    const range = mayBePart(request, found) ? requestedRange(request.headers.range, found.bytes) : null
    const body = request.method === 'HEAD' || range === 'unsatisfiable' ? null : await openObject(media, found, range)
    reply.headers({
      ...CAPABILITY_HEADERS,
      'content-type': found.contentType,
      'accept-ranges': 'bytes',
      etag: tagOf(found),
      'content-disposition': 'attachment',
    })
    if (range === 'unsatisfiable') return reply.status(416).header('content-range', `bytes */${found.bytes}`).send()
    if (range !== null) reply.status(206).header('content-range', `bytes ${range[0]}-${range[1]}/${found.bytes}`)
    // An empty stream: Fastify would derive the content length of a HEAD response from any other body.
    return reply.header('content-length', sizeOf(range, found)).send(body ?? Readable.from([]))
  })
}

function tagOf({ sha256 }: ServedMedia): string {
  return `"${sha256}"`
}

/** Ranges are defined for GET alone, and hold for the representation that `If-Range` names (RFC 9110, 14.2 and 13.1.5). */
function mayBePart({ method, headers }: FastifyRequest, found: ServedMedia): boolean {
  return method === 'GET' && (headers['if-range'] ?? tagOf(found)) === tagOf(found)
}

function sizeOf(range: ByteRange | null, { bytes }: ServedMedia): number {
  return range === null ? bytes : range[1] - range[0] + 1
}

/** Returns a link that expires no later than the media. */
async function linkTo(links: ObjectLinks, { objectKey, contentType, expiresAt }: ServedMedia, now: Date) {
  const remainingSeconds = Math.floor((expiresAt.getTime() - now.getTime()) / 1000)
  const lifetimeSeconds = Math.max(1, Math.min(remainingSeconds, LINK_LIFETIME_SECONDS))
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
  if (!opened)
    throw new AppError('media_unavailable', { cause: new Error('the object of the recorded media is missing') })
  if (opened.bytes === sizeOf(range, found)) return opened.body
  opened.body.destroy()
  throw new AppError('media_unavailable', {
    cause: new Error('the size of the object differs from the recorded media'),
  })
}

/**
 * Returns the first and last byte of a single range, inclusive, or `null` for the whole: several ranges and other units
 * are ignored.
 */
function requestedRange(header: string | undefined, length: number): ByteRange | 'unsatisfiable' | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const [, from = '', to = ''] = match
  const first = from === '' ? Math.max(length - Number(to), 0) : Number(from)
  const last = from === '' || to === '' ? length - 1 : Math.min(Number(to), length - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return null
  return first <= last ? [first, last] : 'unsatisfiable'
}
