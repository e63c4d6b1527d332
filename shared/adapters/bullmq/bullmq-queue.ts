import { Queue, Worker } from 'bullmq'
import { openOnce, untilOpen } from '#shared/adapters/open-once.ts'
import { isRedisOutage } from '#shared/adapters/redis/redis-client.ts'
import { type JobConsumer, type JobQueue, QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { QueueSettings } from '#shared/jobs/queue-settings.ts'
import { parseQueueUrl, type QueueAddress } from '#shared/jobs/queue-url.ts'
import type { LockPatience } from '#shared/ledger/until-unblocked.ts'
import { isConnectionFailure, reasonOf } from '#shared/runtime/connection-failure.ts'
import { rarely } from '#shared/runtime/rarely.ts'
import { StartFailure } from '#shared/runtime/start-process.ts'
import { withDeadline } from '#shared/runtime/with-deadline.ts'
import {
  connectRedis,
  createRedisClient,
  NO_ANSWER,
  type RedisAddress,
  type RedisClient,
  requireNoEviction,
} from '../redis/redis-client.ts'
import { startConsumption } from './consumption.ts'
import { migratePostgresQueue, openPostgresEngine } from './postgres-engine.ts'
import { CONSUMER_RETRY_MS, MESSAGE_OPTIONS, type Producer, type QueueEngine } from './queue-engine.ts'
import { REDIS_PRODUCER_OPTIONS } from './workarounds.ts'

/**
 * BullMQ's events are not used, and by default Redis keeps ten thousand of them for each queue. Never 0, which keeps all of
 * them. In PostgreSQL there are none.
 */
const EVENT_STREAM = { events: { maxLen: 10 } }

/** How long a start waits for a queue that hangs. */
const START_PATIENCE_MS = 5000
/** A queue that hangs must not delay the caller for longer. The sweeper enqueues the job again. */
const ENQUEUE_DEADLINE_MS = 3000

/** Both sides of the queue over the same connections. */
export interface OpenedJobQueue extends JobQueue {
  /**
   * Calls `run` for each delivered id, concurrently up to each queue's limit in `concurrency`. `run` must not throw for
   * a failed job. Begins with `pausedQueues` paused.
   */
  consume(
    concurrency: ReadonlyMap<QueueName, number>,
    run: (jobId: string) => Promise<void>,
    pausedQueues?: ReadonlySet<QueueName>,
  ): JobConsumer
}

/** Creates or updates the queue's tables in PostgreSQL; does nothing for Redis. Part of `npm run migrate`. */
export async function migrateQueue(queueUrl: string, patience?: LockPatience): Promise<void> {
  const address = parseQueueUrl(queueUrl)
  if (address.kind === 'postgres') await migratePostgresQueue(address.url, patience)
}

/**
 * Opens the queue that the settings name. Throws one error that names the setting and the address, never the password,
 * when it cannot be used. If the server merely cannot be reached yet, or its tables are locked, the queue is opened later, so
 * a process can start meanwhile. Once open it reconnects by itself.
 */
export async function openJobQueue(settings: QueueSettings, onError: (error: Error) => void): Promise<OpenedJobQueue> {
  const setting = settings.QUEUE_URL === undefined ? 'DATABASE_URL' : 'QUEUE_URL'
  const address = parseQueueUrl(settings.QUEUE_URL ?? settings.DATABASE_URL)
  // Every queue on a shared connection emits that connection's errors.
  const report = rarely(onError, reasonOf)
  const unusable = (error: unknown) =>
    new UnusableQueue(`${setting}: the queue at ${address.shown} cannot be used`, error)
  const opening = openOnce(async () => {
    const engine = await openEngine(address, settings.QUEUE_PREFIX, report, setting).catch((error: unknown) => {
      throw unusable(error)
    })
    return withProducers(engine, report)
  })
  await withDeadline(START_PATIENCE_MS, opening.get(), () => {
    throw unusable(new Error(NO_ANSWER))
  }).catch((error: unknown) => {
    if (!(error instanceof UnusableQueue) || !error.isUnreachable) throw error
    report(error)
  })
  const closing = new AbortController()
  // In an API too, so that its log says what is wrong.
  const opened = untilOpen(opening, closing.signal, { retryMs: CONSUMER_RETRY_MS, onError: report })
  return {
    enqueue: (jobId, queue) =>
      withDeadline(ENQUEUE_DEADLINE_MS, addTo(opening.get(), queue, jobId), () => {
        throw new Error('the queue does not answer')
      }),
    consume: (concurrency, run, pausedQueues) => {
      const stopping = Promise.withResolvers<null>()
      const engine = Promise.race([opened, stopping.promise]).then((ready) => ready?.engine ?? null)
      const consumption = startConsumption(engine, { concurrency, run, pausedQueues, onError: report })
      return {
        ...consumption,
        close: async (deadlineMs) => {
          stopping.resolve(null)
          await consumption.close(deadlineMs)
        },
      }
    },
    check: async () => (await opening.get()).engine.check(),
    close: async () => {
      closing.abort()
      const current = await opening.current()
      if (!current) return
      await Promise.allSettled([...current.producers.values()].map((producer) => producer.close()))
      await current.engine.close()
    },
  }
}

interface Opened {
  readonly engine: QueueEngine
  readonly producers: ReadonlyMap<QueueName, Producer>
}

function openEngine(
  address: QueueAddress,
  prefix: string,
  onError: (error: Error) => void,
  setting: string,
): Promise<QueueEngine> {
  if (address.kind !== 'postgres') return openRedisEngine(address, prefix, onError)
  return openPostgresEngine(address.url, (clause) => onError(new Error(`${setting}: the queue is ${clause}`)))
}

function withProducers(engine: QueueEngine, onError: (error: Error) => void): Opened {
  const producers = new Map(QUEUE_NAMES.map((name) => [name, engine.createProducer(name)]))
  for (const producer of producers.values()) producer.on('error', onError)
  return { engine, producers }
}

async function addTo(opening: Promise<Opened>, queue: QueueName, jobId: string): Promise<void> {
  const { producers } = await opening
  await producers.get(queue)?.add('run', { jobId })
}

/** Has no `cause`: errors of Redis clients carry the failed command, which may contain the password. */
class UnusableQueue extends StartFailure {
  readonly isUnreachable: boolean

  constructor(what: string, error: unknown) {
    super(`${what}: ${reasonOf(error)}`)
    this.isUnreachable = isRedisOutage(error) || isConnectionFailure(error)
  }
}

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
