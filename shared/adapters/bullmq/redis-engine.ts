import { Queue, Worker } from 'bullmq'
import { messageOptions, type QueueEngine, TAKER_RETRY_MS } from './queue-engine.ts'
import {
  connectRedis,
  createRedisClient,
  type RedisAddress,
  type RedisClient,
  requireNoEviction,
} from './redis-client.ts'

/** Nobody reads BullMQ's events, of which it keeps ten thousand for each queue otherwise. */
const EVENT_STREAM = { events: { maxLen: 10 } }

/** Opens the queue in Redis. Throws when it cannot be reached or may evict messages. */
export async function openRedisEngine(
  address: RedisAddress,
  prefix: string,
  onError: (error: Error) => void,
): Promise<QueueEngine> {
  const producing = createRedisClient(address, 'producer')
  await connectRedis(producing)
  try {
    await requireNoEviction(producing)
  } catch (error) {
    producing.disconnect()
    throw error
  }
  producing.on('error', onError)
  // Connected by the first taker; an API never takes.
  let taking: RedisClient | undefined
  return {
    createProducer: (name) =>
      new Queue(name, {
        connection: producing,
        prefix,
        defaultJobOptions: messageOptions,
        streams: EVENT_STREAM,
        // Asked for once: where Redis is too slow to tell in that moment, BullMQ would refuse every message for good.
        skipVersionCheck: true,
      }),
    createTaker: (name, concurrency, take) => {
      taking ??= createRedisClient(address, 'consumer')
      return new Worker(name, take, { connection: taking, prefix, concurrency, runRetryDelay: TAKER_RETRY_MS })
    },
    // INFO, which says at once whether it answers and whether somebody let it evict.
    check: () => requireNoEviction(producing),
    close: async () => {
      // Not `quit`, which waits for an answer that a lost server never gives; nothing is under way any more.
      for (const client of [producing, taking]) client?.disconnect()
    },
  }
}
