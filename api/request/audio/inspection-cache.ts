import { LRUCache } from 'lru-cache'

export interface InspectionCacheOptions {
  /** Limit of entries, a few hundred bytes each; the least recently used are evicted first. */
  readonly maximumEntries: number
  /** Lifetime of an entry: that of a challenge, so that the signed retry does not decode again. */
  readonly timeToLiveMs: number
  /** Returns whether an error of a computation concerns its caller only: the next of those who wait then computes. */
  readonly isOfCaller?: (error: unknown) => boolean
  /** A monotonic clock in milliseconds; by default that of the process. */
  readonly now?: () => number
}

/** Caches outcomes by the audio's SHA-256, and computes an outcome once for concurrent requests. */
export interface InspectionCache<Outcome extends object> {
  /**
   * Returns the cached outcome, that of a computation in progress, or that of `compute`. What `compute` throws is
   * thrown to all callers who wait for it, unless it concerns its own caller only, and is not cached.
   */
  readonly get: (sha256Hex: string, compute: () => Promise<Outcome>) => Promise<Outcome>
}

/** Creates an empty cache in the memory of this process. */
export function createInspectionCache<Outcome extends object>(
  options: InspectionCacheOptions,
): InspectionCache<Outcome> {
  const settled = new LRUCache<string, Outcome>({
    max: options.maximumEntries,
    ttl: options.timeToLiveMs,
    // Read the clock at every access instead of once a millisecond.
    ttlResolution: 0,
    ...(options.now === undefined ? {} : { perf: { now: options.now } }),
  })
  const inProgress = new Map<string, Promise<Outcome>>()

  const run = async (sha256Hex: string, compute: () => Promise<Outcome>) => {
    try {
      const outcome = await compute()
      settled.set(sha256Hex, outcome)
      return outcome
    } finally {
      inProgress.delete(sha256Hex)
    }
  }

  const get: InspectionCache<Outcome>['get'] = async (sha256Hex, compute) => {
    const known = settled.get(sha256Hex)
    if (known !== undefined) return known
    const joined = inProgress.get(sha256Hex)
    if (joined === undefined) {
      const started = run(sha256Hex, compute)
      inProgress.set(sha256Hex, started)
      return await started
    }
    try {
      return await joined
    } catch (error) {
      if (options.isOfCaller?.(error)) return await get(sha256Hex, compute)
      throw error
    }
  }
  return { get }
}
