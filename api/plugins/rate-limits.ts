import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { AppError } from '#shared/errors/app-error.ts'
import type { EndpointFamily } from '#shared/operations/operation.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { PayingCheck } from '../admission/paying-callers.ts'

const WINDOW_MS = 60_000
/** Clients in memory; the least recently seen ones start again with a full bucket. */
const MAXIMUM_CLIENTS = 100_000

/** Interval at which a client's requests are synced with the other processes, and the delay after a failure. */
const SYNC_INTERVAL_MS = 100
const SYNC_RETRY_MS = 1000

interface Bucket {
  tokens: number
  refilledAt: number
  /** Tokens taken in this process that are not synced yet. */
  pendingTokens: number
  isSyncing: boolean
}

/** Rate-limit allowances shared by all API processes. */
export interface SharedAllowances {
  /**
   * Takes `tokens` from a client's allowance of `perMinute` and returns what is left. Rejects when the store is
   * unreachable.
   */
  take(client: string, tokens: number, perMinute: number): Promise<number>
}

export interface RateLimits {
  /** Per client address, with bursts of up to a minute's worth. */
  readonly requestsPerMinute: number
  /** The same for requests that carry a payment, which are counted separately. */
  readonly paidRequestsPerMinute: number
  readonly isPaying: PayingCheck
  /** `null` when each process limits by itself. */
  readonly shared: SharedAllowances | null
  readonly logger: Logger
  readonly now?: () => number
}

/** Takes one request from the caller's allowance and sets the family's rate-limit headers. Throws `rate_limited`. */
export type RateLimiter = (request: FastifyRequest, reply: FastifyReply, family: EndpointFamily) => void

/**
 * Creates a limiter with a token bucket for each client address, refilled evenly: bursts of up to a minute's worth,
 * then the steady rate. Shared allowances are synced in the background: no request waits for another process, a client
 * may exceed the limit by what the processes admit within a tenth of a second, and each process limits by itself while
 * the store is unreachable.
 */
export function createRateLimiter(limits: RateLimits): RateLimiter {
  const { isPaying, now = Date.now } = limits
  const buckets = new LRUCache<string, Bucket>({ max: MAXIMUM_CLIENTS })
  const syncInBackground = createSync(limits)
  return (request, reply, family) => {
    const at = now()
    const paying = isPaying(request)
    const perMinute = paying ? limits.paidRequestsPerMinute : limits.requestsPerMinute
    const perMillisecond = perMinute / WINDOW_MS
    const client = `${paying ? 'paid' : 'unpaid'}:${request.ip}`
    const bucket = buckets.get(client) ?? { tokens: perMinute, refilledAt: at, pendingTokens: 0, isSyncing: false }
    buckets.set(client, bucket)
    const filled = Math.min(perMinute, bucket.tokens + (at - bucket.refilledAt) * perMillisecond)
    bucket.tokens = filled >= 1 ? filled - 1 : filled
    bucket.refilledAt = at
    if (filled >= 1) bucket.pendingTokens += 1
    syncInBackground(client, bucket, perMinute)
    const fullInSeconds = Math.ceil((perMinute - bucket.tokens) / perMillisecond / 1000)
    reply.headers(limitHeaders(family, perMinute, Math.floor(bucket.tokens), fullInSeconds, at))
    if (filled < 1)
      throw new AppError('rate_limited', { retryAfterSeconds: Math.ceil((1 - filled) / perMillisecond / 1000) })
  }
}

type SyncInBackground = (client: string, bucket: Bucket, perMinute: number) => void

/**
 * Syncs with the shared allowance, one exchange at a time for each client; each covers all tokens taken since the last.
 */
function createSync({ shared, logger, now = Date.now }: RateLimits): SyncInBackground {
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

/**
 * Returns the headers in each family's names and formats: seconds with a unit for OpenAI, a timestamp for Anthropic.
 */
function limitHeaders(
  family: EndpointFamily,
  limit: number,
  remaining: number,
  fullInSeconds: number,
  at: number,
): Record<string, string> {
  if (family === 'anthropic')
    return {
      'anthropic-ratelimit-requests-limit': limit.toString(),
      'anthropic-ratelimit-requests-remaining': remaining.toString(),
      'anthropic-ratelimit-requests-reset': new Date(at + fullInSeconds * 1000).toISOString(),
    }
  return {
    'x-ratelimit-limit-requests': limit.toString(),
    'x-ratelimit-remaining-requests': remaining.toString(),
    'x-ratelimit-reset-requests': `${fullInSeconds}s`,
  }
}
