import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { AppError } from '#shared/errors/app-error.ts'
import type { EndpointFamily } from '#shared/operations/operation.ts'
import { clientGroup } from '#shared/runtime/client-address.ts'
import type { DecoderCaller } from '../request/audio/decoder-queue.ts'
import type { PayingCheck } from './paying-callers.ts'
import type { RateBuckets } from './rate-buckets.ts'

/** How many times as many requests a client may send whose payments verify, counted separately. */
const PAID_FACTOR = 10

interface RateLimits {
  readonly rateBuckets: RateBuckets
  /** Per client, with bursts of up to a minute's worth. */
  readonly requestsPerMinute: number
  /** Returns whether a request draws on the paid bucket. */
  readonly isKnownPayer: PayingCheck
}

/** Takes one request from the caller's bucket and sets the family's rate-limit headers. Throws `rate_limited`. */
export type RateLimiter = (
  request: Pick<FastifyRequest, 'ip' | 'headers'>,
  reply: FastifyReply,
  family: EndpointFamily,
) => void

/**
 * Creates a limiter with two buckets for each client. The paid one belongs to payers whose last payment verified on
 * chain: a wallet and a signature cost a stranger nothing, and a refused payment costs RPC calls and statements.
 */
export function createRateLimiter(limits: RateLimits): RateLimiter {
  const { rateBuckets, isKnownPayer } = limits
  return (request, reply, family) => {
    const [kind, perMinute] = isKnownPayer(request)
      ? (['paid', PAID_FACTOR * limits.requestsPerMinute] as const)
      : (['unpaid', limits.requestsPerMinute] as const)
    const { remaining, fullInSeconds, retryAfterSeconds } = rateBuckets.take(kind, request.ip, perMinute)
    reply.headers(limitHeaders(family, perMinute, remaining, fullInSeconds, Date.now()))
    if (retryAfterSeconds !== null) throw new AppError('rate_limited', { retryAfterSeconds })
  }
}

/**
 * Creates the limit of on-chain verifications for payers that are not known: each costs RPC calls, and a new wallet
 * costs a stranger nothing. Throws `rate_limited`. Returns the function that gives the token back.
 */
export function createVerificationLimiter(
  rateBuckets: RateBuckets,
  verificationsPerMinute: number,
): (request: Pick<FastifyRequest, 'ip'>) => () => void {
  return ({ ip }) => {
    const { retryAfterSeconds } = rateBuckets.take('verifications', ip, verificationsPerMinute)
    if (retryAfterSeconds === null) return () => rateBuckets.giveBack('verifications', ip, verificationsPerMinute)
    const message =
      'Too many payments of new payers from this address. Nothing was charged; retry after the delay in Retry-After.'
    throw new AppError('rate_limited', { message, retryAfterSeconds })
  }
}

/** Counts audio that is to be decoded, before it is. Throws `rate_limited`. */
export type DecodingLimiter = (caller: DecoderCaller, durationMs: number) => void

/**
 * Creates the limit of audio that is decoded for callers who have not paid: an hour costs over a second of processor
 * time, as much as hundreds of other quotes. The audio of known payers is not counted, nor is what was decoded before.
 */
export function createDecodingLimiter(rateBuckets: RateBuckets, minutesPerMinute: number): DecodingLimiter {
  return ({ client, hasPriority }, durationMs) => {
    if (hasPriority) return
    const minutes = durationMs / 60_000
    const { retryAfterSeconds } = rateBuckets.takeSeveral('decoding', client, minutesPerMinute, minutes)
    if (retryAfterSeconds === null) return
    const message =
      'Too much audio from this address was inspected without a payment. Nothing was charged; retry after the delay in Retry-After, or ask for the price of a described recording (POST /v1/quotes with its sha256, bytes and duration_ms), which inspects nothing.'
    throw new AppError('rate_limited', { message, retryAfterSeconds })
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

const MAXIMUM_NETWORKS = 10_000
const REMEMBERED_MS = 10 * 60_000

type Caller = Pick<FastifyRequest, 'ip'>

/** Limits requests whose payment is known only once their body is read. */
export interface UnreadLimiter {
  /**
   * Takes one request from the network's bucket of unpaid requests. Once that is used up, a network from which a
   * known payer paid recently has as many again as paid requests: a signed call must not be refused because of the
   * unpaid ones before it. Throws `rate_limited`.
   */
  takeRequest(request: Caller): void
  /**
   * Returns what was taken from the unpaid requests for this request: its body was read, and decides which bucket it
   * draws on.
   */
  giveBack(request: Caller): void
  /** Remembers that a known payer pays from this network. */
  rememberPayer(caller: Caller): void
}

export function createUnreadLimiter(rateBuckets: RateBuckets, requestsPerMinute: number): UnreadLimiter {
  const payingNetworks = new LRUCache<string, true>({ max: MAXIMUM_NETWORKS, ttl: REMEMBERED_MS })
  const countedAsUnpaid = new WeakSet<Caller>()
  return {
    takeRequest: (request) => {
      const { ip } = request
      const unpaid = rateBuckets.take('unpaid', ip, requestsPerMinute)
      if (unpaid.retryAfterSeconds === null) return void countedAsUnpaid.add(request)
      const { retryAfterSeconds } = payingNetworks.has(clientGroup(ip))
        ? rateBuckets.take('unread', ip, PAID_FACTOR * requestsPerMinute)
        : unpaid
      if (retryAfterSeconds !== null) throw new AppError('rate_limited', { retryAfterSeconds })
    },
    giveBack: (request) => {
      if (countedAsUnpaid.delete(request)) rateBuckets.giveBack('unpaid', request.ip, requestsPerMinute)
    },
    rememberPayer: ({ ip }) => void payingNetworks.set(clientGroup(ip), true),
  }
}
