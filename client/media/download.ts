import { hash } from 'node:crypto'
import { askService, type Followed } from '../wire/ask-service.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { requireSafeUrl } from '../wire/safe-url.ts'

/** What is known of a file before it is downloaded. */
export interface HostedMedia {
  readonly url: string
  readonly bytes?: number | undefined
}

const LONGEST_DOWNLOAD_MS = 10 * 60_000

/** Downloads the result of a call that is paid for, and compares it with its size and digest as far as they are known. */
export async function downloadMedia(
  media: HostedMedia,
  { signal, onWait, advice }: Followed & { readonly advice: string },
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    requireSafeUrl(media.url)
    const answer = await askService({ fetch: followingFetch, now: Date.now }, media.url, {
      headers: { accept: '*/*' },
      timeoutMs: LONGEST_DOWNLOAD_MS,
      signal,
      onWait,
    })
    requireWhole(answer, media)
    return answer.body
  } catch (error) {
    throw new FareboxError({
      code: error instanceof FareboxError ? error.code : 'media_unavailable',
      problem: `The result could not be downloaded: ${problemOf(error)}`,
      money: 'settled',
      advice,
      cause: error,
    })
  }
}

/** Returns the one file of a result. Throws when it has none, or one without a URL. */
export function onlyMediaOf<Media extends { readonly url: string }>(
  { data }: { readonly data: readonly Media[] },
  advice: string,
): Media {
  const [media] = Array.isArray(data) ? data : []
  if (typeof media?.url === 'string') return media
  const problem = 'The result names no file.'
  throw new FareboxError({ code: 'answer_damaged', problem, money: 'settled', advice })
}

/** Media may be answered with a link to an object store. */
const followingFetch: typeof fetch = (input, init) => fetch(input, { ...init, redirect: 'follow' })

function requireWhole({ body, headers }: HttpAnswer, { bytes }: HostedMedia): void {
  if (bytes !== undefined && body.length !== bytes) throw incomplete(`it has ${body.length} bytes instead of ${bytes}`)
  const [, digest] = /^"([0-9a-f]{64})"$/.exec(headers.get('etag') ?? '') ?? []
  if (digest !== undefined && hash('sha256', body) !== digest)
    throw incomplete('its SHA-256 is not the one of its ETag')
}

function incomplete(problem: string): FareboxError {
  return new FareboxError({ code: 'media_damaged', problem: `${problem}.`, money: 'settled', advice: '' })
}

function problemOf(error: unknown): string {
  if (error instanceof FareboxError) return error.problem
  return error instanceof Error ? error.message : String(error)
}

/** The first bytes of what models return, and the endings of its files. */
const FORMATS = [
  { name: 'PNG', kind: 'image', mimeType: 'image/png', start: /^\x89PNG/, endings: ['.png'] },
  { name: 'JPEG', kind: 'image', mimeType: 'image/jpeg', start: /^\xff\xd8\xff/, endings: ['.jpg', '.jpeg'] },
  { name: 'WebP', kind: 'image', mimeType: 'image/webp', start: /^RIFF.{4}WEBP/s, endings: ['.webp'] },
  { name: 'MP3', kind: 'audio', mimeType: 'audio/mpeg', start: /^(ID3|\xff[\xe2-\xff])/, endings: ['.mp3'] },
] as const

/** Returns what the content of a file is; `undefined` if it is none of what models return. */
export function formatOf(content: Uint8Array) {
  const start = Buffer.from(content.subarray(0, 16)).toString('latin1')
  return FORMATS.find((format) => format.start.test(start))
}
