import { AppError } from '#shared/errors/app-error.ts'
import type { ImageFetcher, RemoteImage } from './fetch-remote-image.ts'
import { WorkDeferred } from './work-deferred.ts'

/** More than any conversation needs; each is a request that a caller makes the worker send. */
const MAXIMUM_IMAGES = 16

/** No vendor accepts a larger request. */
const MAXIMUM_BYTES = 20 * 1024 * 1024

/** Images of one call that are fetched concurrently; each is in memory several times on its way upstream. */
const CONCURRENT_IMAGES = 4

/** Delay before a job that found no place tries again; about as long as a fetch takes. */
const RETRY_MS = 500

export interface RemoteImageLimits {
  /** Jobs of this process that fetch images at the same time. */
  readonly places: number
  /** Those of one payer. */
  readonly placesPerPayer: number
  /** For all images of one call together. */
  readonly timeoutMs: number
}

export const REMOTE_IMAGE_LIMITS = { placesPerPayer: 2, timeoutMs: 20_000 } as const

/** Returns how many jobs may fetch images in a process with this many text jobs; they come on top of those. */
export function imagePlaces(textJobs: number): number {
  return Math.ceil(textJobs / 2)
}

/** The payer of a call. */
export interface ImageCaller {
  readonly payer: string
  /** New payers share half of the places: a wallet costs nothing, and its image servers may be arbitrarily slow. */
  readonly isNewPayer: boolean
}

export interface RemoteImages {
  /**
   * Fetches the images of one call, each URL once, on behalf of its payer. Throws `image_unavailable`, or
   * `WorkDeferred` while the process, the payer or the new payers have no place left.
   */
  fetchAll(urls: ReadonlySet<string>, caller: ImageCaller): Promise<ReadonlyMap<string, RemoteImage>>
}

/**
 * Creates the fetcher of the images that the calls of one process reference. Callers choose the image servers, which
 * may be arbitrarily slow, so the time and the number of jobs that wait for them are limited separately.
 */
export function createRemoteImages(fetcher: ImageFetcher, limits: RemoteImageLimits): RemoteImages {
  const taken = new Map<string, number>()
  const takenBy = (payer: string) => taken.get(payer) ?? 0
  let takenByNew = 0
  const add = ({ payer, isNewPayer }: ImageCaller, change: 1 | -1) => {
    takenByNew += isNewPayer ? change : 0
    const count = takenBy(payer) + change
    if (count === 0) taken.delete(payer)
    else taken.set(payer, count)
  }
  return {
    async fetchAll(urls, caller) {
      requireFew(urls)
      const total = [...taken.values()].reduce((sum, count) => sum + count, 0)
      const isFull = total >= limits.places || (caller.isNewPayer && takenByNew >= Math.ceil(limits.places / 2))
      if (isFull || takenBy(caller.payer) >= limits.placesPerPayer)
        throw new WorkDeferred('no place to fetch images', RETRY_MS)
      add(caller, 1)
      try {
        return await fetchWithin(fetcher, urls, limits.timeoutMs)
      } finally {
        add(caller, -1)
      }
    },
  }
}

function requireFew(urls: ReadonlySet<string>): void {
  if (urls.size > MAXIMUM_IMAGES)
    throw new AppError('image_unavailable', {
      message: `A request can reference at most ${MAXIMUM_IMAGES} images by URL. Nothing was charged.`,
    })
}

/** Fetches a few images at a time. The first failure, or the end of the time, aborts all others. */
async function fetchWithin(
  fetcher: ImageFetcher,
  urls: ReadonlySet<string>,
  timeoutMs: number,
): Promise<ReadonlyMap<string, RemoteImage>> {
  const fetched = new Map<string, RemoteImage>()
  const failed = new AbortController()
  const signal = AbortSignal.any([failed.signal, AbortSignal.timeout(timeoutMs)])
  const waiting = [...urls]
  let bytes = 0
  const fetchNext = async (): Promise<void> => {
    for (let url = waiting.shift(); url !== undefined; url = waiting.shift()) {
      const image = await fetcher.fetch(url, signal)
      bytes += image.bytes.length
      if (bytes > MAXIMUM_BYTES)
        throw new AppError('image_unavailable', {
          message: 'The images referenced by URL are larger than 20 MB in total. Nothing was charged.',
        })
      fetched.set(url, image)
    }
  }
  try {
    await Promise.all(Array.from({ length: CONCURRENT_IMAGES }, fetchNext))
    return fetched
  } catch (error) {
    failed.abort()
    throw error
  }
}
