import type { FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { AppError } from '#shared/errors/app-error.ts'
import type { EndpointFamily } from '#shared/operations/operation.ts'

const WINDOW_MS = 60_000
/** Addresses remembered at once; the least recently seen start afresh. */
const CLIENTS_REMEMBERED = 100_000

interface Bucket {
  tokens: number
  filledAt: number
}

/** Takes one request from the caller's allowance, names what is left in the family's headers; throws `rate_limited`. */
export type RateLimiter = (request: FastifyRequest, reply: FastifyReply, family: EndpointFamily) => void

/** A token bucket for each client address, refilled evenly: bursts up to a minute's worth, then the steady rate. */
export function createRateLimiter(requestsPerMinute: number, now: () => number = Date.now): RateLimiter {
  const buckets = new LRUCache<string, Bucket>({ max: CLIENTS_REMEMBERED })
  const perMillisecond = requestsPerMinute / WINDOW_MS
  return (request, reply, family) => {
    const at = now()
    const before = buckets.get(request.ip) ?? { tokens: requestsPerMinute, filledAt: at }
    const filled = Math.min(requestsPerMinute, before.tokens + (at - before.filledAt) * perMillisecond)
    const tokens = filled >= 1 ? filled - 1 : filled
    buckets.set(request.ip, { tokens, filledAt: at })
    const fullInSeconds = Math.ceil((requestsPerMinute - tokens) / perMillisecond / 1000)
    reply.headers(limitHeaders(family, requestsPerMinute, Math.floor(tokens), fullInSeconds, at))
    if (filled < 1)
      throw new AppError('rate_limited', { retryAfterSeconds: Math.ceil((1 - filled) / perMillisecond / 1000) })
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
