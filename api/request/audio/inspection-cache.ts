import { LRUCache } from 'lru-cache'

export interface InspectionCacheOptions {
  /** Entries kept; the least recently used goes first. An entry is a few hundred bytes. */
  readonly maximumEntries: number
  /** Life of an entry from when it was made: that of a challenge, so that the signed retry does not decode again. */
  readonly timeToLiveMs: number
  /** Milliseconds of a clock that never goes back; the process's own by default. */
  readonly now?: () => number
}

/** Remembers outcomes by the audio's SHA-256 and runs simultaneous requests for the same audio once. */
export interface InspectionCache<Outcome extends object> {
  /**
   * The remembered outcome, that of a run under way, or that of `compute`. What `compute` throws goes to everyone who
   * waited for it and is not remembered.
   */
  readonly get: (sha256Hex: string, compute: () => Promise<Outcome>) => Promise<Outcome>
}

/** Makes an empty cache, in memory and of this process alone. */
export function createInspectionCache<Outcome extends object>(
  options: InspectionCacheOptions,
): InspectionCache<Outcome> {
  const settled = new LRUCache<string, Outcome>({
    max: options.maximumEntries,
    ttl: options.timeToLiveMs,
    // Look at the clock at every access rather than once a millisecond.
    ttlResolution: 0,
    ...(options.now === undefined ? {} : { perf: { now: options.now } }),
  })
  const underWay = new Map<string, Promise<Outcome>>()

  const run = async (sha256Hex: string, compute: () => Promise<Outcome>) => {
    try {
      const outcome = await compute()
      settled.set(sha256Hex, outcome)
      return outcome
    } finally {
      underWay.delete(sha256Hex)
    }
  }

  return {
    get: async (sha256Hex, compute) => {
      const known = settled.get(sha256Hex)
      if (known !== undefined) return known
      const joined = underWay.get(sha256Hex)
      if (joined !== undefined) return await joined
      const started = run(sha256Hex, compute)
      underWay.set(sha256Hex, started)
      return await started
    },
  }
}
