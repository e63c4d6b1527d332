import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { clientGroup, clientGroups, widerClientGroup } from '#shared/runtime/client-address.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ClientGroups } from '../request/fair-pool.ts'

const WINDOW_MS = 60_000
/** Clients in memory; the least recently seen ones start again with a full bucket. */
const MAXIMUM_CLIENTS = 100_000
/** How many times the rate of one IPv6 network (/64) all networks of a site (/48) may use together. */
const SITE_FACTOR = 10

/** Interval at which a client's requests are synced with the other processes, and the delay after a failure. */
const SYNC_INTERVAL_MS = 100
const SYNC_RETRY_MS = 1000

/** A machine's clock may be set back, which would empty the buckets. */
const monotonicMs = () => performance.now()

interface Bucket {
  tokens: number
  refilledAt: number
  /** Tokens taken in this process that are not synced yet. */
  pendingTokens: number
  isSyncing: boolean
}

/** Buckets shared by all API processes. */
export interface SharedRateBuckets {
  /**
   * Takes `tokens` from a client's bucket of `perMinute` and returns what is left. Rejects when the store is
   * unreachable.
   */
  take(client: string, tokens: number, perMinute: number): Promise<number>
}

/** The state of a bucket after a token was asked for. */
export interface Taken {
  readonly remaining: number
  /** Seconds until the bucket is full again. */
  readonly fullInSeconds: number
  /** Seconds until a token is available; `null` when one was taken. */
  readonly retryAfterSeconds: number | null
}

/** Token buckets for each client, refilled evenly: bursts of up to a minute's worth, then the steady rate. */
export interface RateBuckets {
  /**
   * Takes one token of `kind` from the caller's network: an IPv4 address or an IPv6 /64. IPv6 callers also draw on
   * their /48, which has ten times the rate, since one customer is often given all of it.
   */
  take(kind: string, address: string, perMinute: number): Taken
  /** The same for a caller's networks and several tokens, of which one client has at least `perMinute` a minute. */
  takeSeveral(kind: string, client: ClientGroups, perMinute: number, tokens: number): Taken
  /** Returns a token that was taken for work that turned out not to count. */
  giveBack(kind: string, address: string, perMinute: number): void
  /** Returns whether a token is available, without taking it. */
  has(kind: string, address: string, perMinute: number): boolean
}

interface RateBucketOptions {
  /** `null` when each process limits by itself. */
  readonly shared: SharedRateBuckets | null
  readonly logger: Logger
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
}

/**
 * Creates the buckets of this process. Shared buckets are synced in the background: no request waits for another
 * process, a client may exceed the limit by what the processes admit within a tenth of a second, and each process
 * limits by itself while the store is unreachable.
 */
export function createRateBuckets(options: RateBucketOptions): RateBuckets {
  const { now = monotonicMs } = options
  const buckets = new LRUCache<string, Bucket>({ max: MAXIMUM_CLIENTS })
  const syncInBackground = createSync(options)

  function refill(client: string, perMinute: number): Bucket {
    const at = now()
    const bucket = buckets.get(client) ?? { tokens: perMinute, refilledAt: at, pendingTokens: 0, isSyncing: false }
    buckets.set(client, bucket)
    bucket.tokens = Math.min(perMinute, bucket.tokens + ((at - bucket.refilledAt) * perMinute) / WINDOW_MS)
    bucket.refilledAt = at
    return bucket
  }

  function takeFrom(client: string, perMinute: number, tokens: number): Taken {
    const bucket = refill(client, perMinute)
    const perSecond = (perMinute / WINDOW_MS) * 1000
    const missing = tokens - bucket.tokens
    if (missing <= 0) {
      bucket.tokens -= tokens
      bucket.pendingTokens += tokens
    }
    syncInBackground(client, bucket, perMinute)
    return {
      remaining: Math.floor(bucket.tokens),
      fullInSeconds: Math.ceil((perMinute - bucket.tokens) / perSecond),
      retryAfterSeconds: missing <= 0 ? null : Math.ceil(missing / perSecond),
    }
  }

  function returnOne(client: string, perMinute: number): void {
    const bucket = refill(client, perMinute)
    bucket.tokens = Math.min(perMinute, bucket.tokens + 1)
    bucket.pendingTokens -= 1
  }

  function takeSeveral(kind: string, [host, site]: ClientGroups, perMinute: number, tokens: number): Taken {
    const takeOfSite = () => takeFrom(`${kind}:${site}`, perMinute * SITE_FACTOR, tokens)
    // An exhausted site creates no buckets for further networks, which would evict those of other clients.
    if (site !== undefined && refill(`${kind}:${site}`, perMinute * SITE_FACTOR).tokens < tokens) return takeOfSite()
    const taken = takeFrom(`${kind}:${host}`, perMinute, tokens)
    // A network beyond its own rate takes nothing from its neighbors in the site.
    if (site === undefined || taken.retryAfterSeconds !== null) return taken
    const ofSite = takeOfSite()
    return ofSite.remaining < taken.remaining ? ofSite : taken
  }

  return {
    take: (kind, address, perMinute) => takeSeveral(kind, clientGroups(address), perMinute, 1),
    takeSeveral: (kind, client, perMinute, tokens) => takeSeveral(kind, client, perMinute, Math.min(tokens, perMinute)),
    giveBack: (kind, address, perMinute) => {
      const site = widerClientGroup(address)
      returnOne(`${kind}:${clientGroup(address)}`, perMinute)
      if (site !== null) returnOne(`${kind}:${site}`, perMinute * SITE_FACTOR)
    },
    has: (kind, address, perMinute) => {
      const site = widerClientGroup(address)
      return (
        refill(`${kind}:${clientGroup(address)}`, perMinute).tokens >= 1 &&
        (site === null || refill(`${kind}:${site}`, perMinute * SITE_FACTOR).tokens >= 1)
      )
    },
  }
}

type SyncInBackground = (client: string, bucket: Bucket, perMinute: number) => void

/**
 * Syncs with the shared bucket, one exchange at a time for each client; each covers all tokens taken since the last.
 */
function createSync({ shared, logger, now = monotonicMs }: RateBucketOptions): SyncInBackground {
  if (!shared) return () => undefined
  let isDown = false
  const sync = async (client: string, bucket: Bucket, perMinute: number) => {
    const { pendingTokens } = bucket
    bucket.pendingTokens = 0
    try {
      const left = await shared.take(client, pendingTokens, perMinute)
      bucket.tokens = Math.max(0, left - bucket.pendingTokens)
      bucket.refilledAt = now()
      if (isDown) logger.info('rate limits are shared again', {})
      isDown = false
      await delay(SYNC_INTERVAL_MS, undefined, { ref: false })
    } catch (error) {
      if (!isDown) logger.warn('failed to share rate limits; limiting per process', { error })
      isDown = true
      await delay(SYNC_RETRY_MS, undefined, { ref: false })
    }
  }
  const syncAll = async (client: string, bucket: Bucket, perMinute: number) => {
    bucket.isSyncing = true
    while (bucket.pendingTokens > 0) await sync(client, bucket, perMinute)
    bucket.isSyncing = false
  }
  return (client, bucket, perMinute) => {
    if (!bucket.isSyncing) void syncAll(client, bucket, perMinute)
  }
}
