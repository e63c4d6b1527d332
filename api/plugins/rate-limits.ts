import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { AppError } from '#shared/errors/app-error.ts'
import type { EndpointFamily } from '#shared/operations/operation.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { PayingCheck } from '../admission/paying-callers.ts'

const WINDOW_MS = 60_000
/** Addresses remembered at once; the least recently seen start afresh. */
const CLIENTS_REMEMBERED = 100_000

/** How often the processes tell each other what one client took, and how soon after a failure they try again. */
const SHARE_EVERY_MS = 100
const SHARE_AGAIN_MS = 1000

interface Bucket {
  tokens: number
  filledAt: number
  /** Taken here, and not told to the other processes yet. */
  untold: number
  isSharing: boolean
}

/** Allowances that all API processes draw on. */
export interface SharedAllowances {
  /** Takes `tokens` from a client's allowance of `perMinute`; gives what is left of it. Rejects when it cannot be reached. */
  take(client: string, tokens: number, perMinute: number): Promise<number>
}

export interface RateLimits {
  /** Of one client address, bursts up to a minute's worth. */
  readonly requestsPerMinute: number
  /** The same for requests that bring a payment, which count by themselves. */
  readonly paidRequestsPerMinute: number
  readonly isPaying: PayingCheck
  /** `null` when this process is alone. */
  readonly shared: SharedAllowances | null
  readonly logger: Logger
  readonly now?: () => number
}

/** Takes one request from the caller's allowance, names what is left in the family's headers; throws `rate_limited`. */
export type RateLimiter = (request: FastifyRequest, reply: FastifyReply, family: EndpointFamily) => void

/**
 * A token bucket for each client address, refilled evenly: bursts up to a minute's worth, then the steady rate. Shared
 * allowances are drawn on behind the requests: nobody waits for another process, a client may get what the processes admit
 * within a tenth of a second too much, and while they cannot be reached each process limits by itself.
 */
export function createRateLimiter(limits: RateLimits): RateLimiter {
  const { isPaying, now = Date.now } = limits
  const buckets = new LRUCache<string, Bucket>({ max: CLIENTS_REMEMBERED })
  const share = createSharing(limits)
  return (request, reply, family) => {
    const at = now()
    const paying = isPaying(request)
    const perMinute = paying ? limits.paidRequestsPerMinute : limits.requestsPerMinute
    const perMillisecond = perMinute / WINDOW_MS
    const client = `${paying ? 'paid' : 'unpaid'}:${request.ip}`
    const bucket = buckets.get(client) ?? { tokens: perMinute, filledAt: at, untold: 0, isSharing: false }
    buckets.set(client, bucket)
    const filled = Math.min(perMinute, bucket.tokens + (at - bucket.filledAt) * perMillisecond)
    bucket.tokens = filled >= 1 ? filled - 1 : filled
    bucket.filledAt = at
    if (filled >= 1) bucket.untold += 1
    share(client, bucket, perMinute)
    const fullInSeconds = Math.ceil((perMinute - bucket.tokens) / perMillisecond / 1000)
    reply.headers(limitHeaders(family, perMinute, Math.floor(bucket.tokens), fullInSeconds, at))
    if (filled < 1)
      throw new AppError('rate_limited', { retryAfterSeconds: Math.ceil((1 - filled) / perMillisecond / 1000) })
  }
}

type Sharing = (client: string, bucket: Bucket, perMinute: number) => void

/** One exchange at a time for each client, which carries whatever was taken meanwhile. */
function createSharing({ shared, logger, now = Date.now }: RateLimits): Sharing {
  if (!shared) return () => undefined
  let isDown = false
  const tell = async (client: string, bucket: Bucket, perMinute: number) => {
    const { untold } = bucket
    bucket.untold = 0
    try {
      const left = await shared.take(client, untold, perMinute)
      bucket.tokens = Math.max(0, left - bucket.untold)
      bucket.filledAt = now()
      if (isDown) logger.info('rate limits are shared with the other processes again', {})
      isDown = false
      await delay(SHARE_EVERY_MS, undefined, { ref: false })
    } catch (error) {
      if (!isDown) logger.warn('rate limits cannot be shared; this process limits by itself', { error })
      isDown = true
      await delay(SHARE_AGAIN_MS, undefined, { ref: false })
    }
  }
  const tellAll = async (client: string, bucket: Bucket, perMinute: number) => {
    bucket.isSharing = true
    while (bucket.untold > 0) await tell(client, bucket, perMinute)
    bucket.isSharing = false
  }
  return (client, bucket, perMinute) => {
    if (!bucket.isSharing) void tellAll(client, bucket, perMinute)
  }
}

/** The names and formats of each family's API: seconds with a unit for OpenAI, a time for Anthropic. */
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
