import { setTimeout as delay } from 'node:timers/promises'
import { createPostgresBackend, withBackend } from 'bullmq'
import pg from 'pg'
import { z } from 'zod'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'

/**
 * A client whose loss ends no process. BullMQ listens for errors only after it has connected, or not at all; a server that shuts
 * down in that moment says so in the same packet in which it says that it is ready.
 */
class HeardClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    // Whoever waits for a statement or a notification learns of the loss by that.
    this.on('error', () => undefined)
  }
}

const createBackend: typeof createPostgresBackend = (...input) => {
  const backend = createPostgresBackend(...input)
  // The pool takes its class from the options; the client that listens has none, so BullMQ's own module is stood in for.
  Object.assign(backend.connection, { pgModule: { Client: HeardClient } })
  return backend
}

const { Queue, Worker } = withBackend(createBackend)

const QUEUE_NAME = 'paid-requests'
/** The queue's tables live apart from the ledger's and may be dropped without losing work. */
const QUEUE_SCHEMA = 'farebox_queue'
/** A producer adds and a consumer fetches; neither needs many connections. */
const MAXIMUM_CONNECTIONS = 4

const messageSchema = z.strictObject({ jobId: z.uuid() })

function connectionTo(queueUrl: string) {
  return { connectionString: queueUrl, schema: QUEUE_SCHEMA, max: MAXIMUM_CONNECTIONS, Client: HeardClient }
}

/** Creates or updates the queue's own tables. Part of `npm run migrate`. */
export async function migrateQueue(queueUrl: string): Promise<void> {
  const queue = new Queue(QUEUE_NAME, { connection: { ...connectionTo(queueUrl), migrate: true } })
  await queue.waitUntilReady()
  await queue.close()
}

/** Between attempts to open a queue that cannot be reached, and to fetch from one whose connection was lost. */
const RETRY_MS = 1000

/** The producing side. Finished messages are not kept: the job's row says everything about it. */
export function createJobQueue(queueUrl: string, onError: (error: Error) => void): JobQueue {
  const open = () => {
    const queue = new Queue(QUEUE_NAME, {
      connection: connectionTo(queueUrl),
      defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
    })
    queue.on('error', onError)
    return queue
  }
  let queue: ReturnType<typeof open> | null = open()
  return {
    enqueue: async (jobId) => {
      queue ??= open()
      const present = queue
      try {
        await present.waitUntilReady()
      } catch (error) {
        // BullMQ remembers a failed first connection for good, so that only another queue can ever be ready.
        if (queue === present) queue = null
        void present.close().catch(onError)
        throw error
      }
      await present.add('run', { jobId })
    },
    close: async () => await queue?.close(),
  }
}

interface ConsumerOptions {
  readonly queueUrl: string
  readonly concurrency: number
  readonly run: (jobId: string) => Promise<void>
  readonly onError: (error: Error) => void
}

/**
 * The consuming side: `run` is called for each delivered id, `concurrency` at once. It must not throw for a failed job. A queue
 * that cannot be reached yet is tried until it can.
 */
export function consumeJobs(options: ConsumerOptions): JobConsumer {
  const closing = new AbortController()
  const opened = openConsumer(options, closing.signal)
  return {
    close: async (deadlineMs) => {
      closing.abort()
      const worker = await opened
      if (worker) await closeWithin(worker, deadlineMs)
    },
  }
}

/** `null` when it was closed before the queue could be reached. A worker whose first connection failed never fetches. */
async function openConsumer(
  options: ConsumerOptions,
  closing: AbortSignal,
): Promise<InstanceType<typeof Worker> | null> {
  while (!closing.aborted) {
    const worker = new Worker(QUEUE_NAME, (message) => options.run(messageSchema.parse(message.data).jobId), {
      connection: connectionTo(options.queueUrl),
      concurrency: options.concurrency,
      // The default of 15 s would keep a worker idle that long after each lost connection.
      runRetryDelay: RETRY_MS,
    })
    worker.on('error', options.onError)
    worker.on('failed', (_, error) => options.onError(error))
    try {
      await worker.waitUntilReady()
      return worker
    } catch (error) {
      options.onError(error instanceof Error ? error : new Error(String(error)))
      await worker.close().catch(options.onError)
      await delay(RETRY_MS, undefined, { signal: closing }).catch(() => undefined)
    }
  }
  return null
}

/**
 * A job that outlives the deadline is left to its lease: another worker takes it over when that runs out. BullMQ cannot
 * turn a close that waits into a forced one, so the consumer's connections then stay until the process ends.
 */
async function closeWithin(worker: { close(): Promise<void> }, deadlineMs: number): Promise<void> {
  const { promise: deadline, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, deadlineMs)
  await Promise.race([worker.close(), deadline])
  clearTimeout(timer)
}
