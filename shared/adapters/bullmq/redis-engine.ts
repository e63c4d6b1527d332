import { Queue, Worker } from 'bullmq'
import {
  connectRedis,
  createRedisClient,
  type RedisAddress,
  type RedisClient,
  requireNoEviction,
} from '../redis/redis-client.ts'
import { CONSUMER_RETRY_MS, MESSAGE_OPTIONS, type QueueEngine } from './queue-engine.ts'
import { REDIS_PRODUCER_OPTIONS } from './workarounds.ts'

/** BullMQ's events are not used. By default it keeps ten thousand of them for each queue. */
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
  // Created for the first consumer: an API never consumes.
  let consuming: RedisClient | undefined
  return {
    createProducer: (name) =>
      new Queue(name, {
        connection: producing,
        prefix,
        defaultJobOptions: MESSAGE_OPTIONS,
        streams: EVENT_STREAM,
        ...REDIS_PRODUCER_OPTIONS,
      }),
    createConsumer: (name, concurrency, handle) => {
      consuming ??= createRedisClient(address, 'consumer')
      return new Worker(name, handle, { connection: consuming, prefix, concurrency, runRetryDelay: CONSUMER_RETRY_MS })
    },
    // INFO shows both whether Redis answers and whether an operator has since allowed eviction.
    check: () => requireNoEviction(producing),
    close: async () => {
      // `quit` would wait for an answer that a lost server never sends. No command is in flight at this point.
      for (const client of [producing, consuming]) client?.disconnect()
    },
  }
}
