import type { QueueSettings } from '#shared/jobs/queue-settings.ts'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { createRedisClient } from './redis-client.ts'

/** How long an empty bucket takes to refill. An unused bucket expires after it. */
const WINDOW_MS = 60_000

/**
 * Refills the bucket by the time elapsed on Redis' clock, takes from it, and returns what is left. The bucket never
 * goes below zero: processes that overdraw it concurrently owe nothing.
 */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken, capacity, window = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local elapsed = math.max(0, now - (tonumber(bucket[2]) or now))
local filled = math.min(capacity, (tonumber(bucket[1]) or capacity) + elapsed * capacity / window)
local left = math.max(0, filled - taken)
redis.call('HSET', KEYS[1], 'tokens', left, 'at', now)
redis.call('PEXPIRE', KEYS[1], window)
return tostring(left)`

/** Token buckets in the queue's Redis, for all processes that share it. */
export interface RedisRateBuckets {
  /**
   * Takes `tokens` from a client's bucket of `perMinute` and returns what is left. Rejects immediately while Redis is
   * unreachable.
   */
  take(client: string, tokens: number, perMinute: number): Promise<number>
  close(): void
}

/**
 * Opens the buckets in the queue's Redis, or returns `null` when the queue is not in Redis. Connects in the background,
 * because a process starts without shared limits too, and reconnects by itself.
 */
export function openSharedRateBuckets(settings: QueueSettings): RedisRateBuckets | null {
  const address = settings.QUEUE_URL === undefined ? null : parseQueueUrl(settings.QUEUE_URL)
  if (!address || address.kind === 'postgres') return null
  const redis = createRedisClient(address, 'producer')
  // `take` rejects in the meantime.
  redis.on('error', () => undefined)
  redis.connect().catch(() => undefined)
  return {
    take: async (client, tokens, perMinute) => {
      const key = `${settings.QUEUE_PREFIX}:rate:${client}`
      const left = Number(await redis.eval(TAKE, 1, key, tokens, perMinute, WINDOW_MS))
      if (!Number.isFinite(left)) throw new Error('Redis did not return a number for a bucket')
      return left
    },
    close: () => redis.disconnect(),
  }
}
