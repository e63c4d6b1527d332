import { AppError } from '#shared/errors/app-error.ts'
import { WorkDeferred } from './execution.ts'
import type { ImageFetcher } from './fetch-remote-image.ts'
import { MAXIMUM_REMOTE_IMAGE_BYTES } from './held-bytes.ts'

/** More than any conversation needs; each is a request that a caller makes the worker send. */
const MAXIMUM_IMAGES = 16

/** Images of one call that are fetched concurrently; each is in memory several times on its way upstream. */
const CONCURRENT_IMAGES = 4

/** Delay before a job that found no slot tries again, unless it is woken; about as long as a fetch takes. */
const RETRY_MS = 500

/** More deferred jobs than this are not woken: they try again after their delays. */
const MOST_WAITING = 1000

export interface RemoteImageLimits {
  /** Jobs of this process that fetch images at the same time. */
  readonly slots: number
  /** Those of one payer. */
  readonly slotsPerPayer: number
  /** For all images of one call together. */
  readonly timeoutMs: number
}

export const REMOTE_IMAGE_LIMITS = { slotsPerPayer: 2, timeoutMs: 20_000 } as const

/** However many text jobs a process runs: callers choose the servers, which may be slow on purpose. */
const MOST_SLOTS = 32

/** Returns how many jobs may fetch images in a process with this many text jobs; they come on top of those. */
export function imageSlots(textJobs: number): number {
  return Math.min(Math.ceil(textJobs / 2), MOST_SLOTS)
}

/** The payer of a call. */
export interface ImageCaller {
  readonly payer: string
  /** New payers share half of the slots: a wallet costs nothing, and its image servers may be arbitrarily slow. */
  readonly isNewPayer: boolean
}

/** An image as it is put into the request. */
export interface InlinedImage {
  readonly media_type: string
  readonly base64: string
}

export interface RemoteImages {
  /**
   * Fetches the images of one call, each URL once, on behalf of its payer. Throws `image_unavailable`, or
   * `WorkDeferred` while the process, the payer or the new payers have no slot left, and wakes the job when there is
   * one. An image counts as often as its URL is listed. `onBytes` is called with the total as it arrives; an error that it throws ends the fetching.
   */
  fetchAll(
    urls: readonly string[],
    caller: ImageCaller,
    onBytes: (total: number) => void,
  ): Promise<ReadonlyMap<string, InlinedImage>>
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
  const hasSlot = ({ payer, isNewPayer }: ImageCaller) => {
    const total = [...taken.values()].reduce((sum, count) => sum + count, 0)
    const isFull = total >= limits.slots || (isNewPayer && takenByNew >= Math.ceil(limits.slots / 2))
    return !isFull && takenBy(payer) < limits.slotsPerPayer
  }
  /** Deferred jobs, in the order of their deferrals. */
  const waiting = new Set<{ readonly caller: ImageCaller; readonly wake: () => Promise<boolean> }>()
  /** Wakes the first job that has a slot now. One that does not wait any more has run at another worker. */
  const wakeNext = async () => {
    for (const waiter of waiting) {
      if (!hasSlot(waiter.caller)) continue
      waiting.delete(waiter)
      if (await waiter.wake()) return
    }
  }
  return {
    async fetchAll(urls, caller, onBytes) {
      const uses = countUses(urls)
      requireFew(uses)
      if (!hasSlot(caller))
        throw new WorkDeferred('no slot to fetch images', RETRY_MS, (wake) => {
          // A slot may have become free while the deferral was written.
          if (hasSlot(caller)) void wake()
          else if (waiting.size < MOST_WAITING) waiting.add({ caller, wake })
        })
      add(caller, 1)
      try {
        return await fetchWithin(fetcher, uses, limits.timeoutMs, onBytes)
      } finally {
        add(caller, -1)
        void wakeNext()
      }
    },
  }
}

function countUses(urls: readonly string[]): ReadonlyMap<string, number> {
  const uses = new Map<string, number>()
  for (const url of urls) uses.set(url, (uses.get(url) ?? 0) + 1)
  return uses
}

function requireFew(urls: ReadonlyMap<string, number>): void {
  if (urls.size > MAXIMUM_IMAGES)
    throw new AppError('image_unavailable', {
      message: `A request can reference at most ${MAXIMUM_IMAGES} images by URL. Nothing was charged.`,
    })
}

/** Fetches a few images at a time. The first failure, or the end of the time, aborts all others. */
async function fetchWithin(
  fetcher: ImageFetcher,
  uses: ReadonlyMap<string, number>,
  timeoutMs: number,
  onBytes: (total: number) => void,
): Promise<ReadonlyMap<string, InlinedImage>> {
  const fetched = new Map<string, InlinedImage>()
  const failed = new AbortController()
  const signal = AbortSignal.any([failed.signal, AbortSignal.timeout(timeoutMs)])
  const waiting = [...uses]
  let total = 0
  const count = (bytes: number) => {
    total += bytes
    if (total > MAXIMUM_REMOTE_IMAGE_BYTES)
      throw new AppError('image_unavailable', {
        message: 'The images referenced by URL are larger than 20 MB in total. Nothing was charged.',
      })
    onBytes(total)
  }
  const fetchNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [url, times] = next
      const { bytes, mediaType } = await fetcher.fetch(url, signal, (arrived) => count(arrived * times))
      fetched.set(url, { media_type: mediaType, base64: Buffer.from(bytes).toString('base64') })
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
