import { createPostgresBackend, withBackend } from 'bullmq'
import { z } from 'zod'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'

const { Queue, Worker } = withBackend(createPostgresBackend)

const QUEUE_NAME = 'paid-requests'
/** The queue's tables live apart from the ledger's and may be dropped without losing work. */
const QUEUE_SCHEMA = 'farebox_queue'
/** A producer adds and a consumer fetches; neither needs many connections. */
const MAXIMUM_CONNECTIONS = 4

const messageSchema = z.strictObject({ jobId: z.uuid() })

function connectionTo(queueUrl: string) {
  return { connectionString: queueUrl, schema: QUEUE_SCHEMA, max: MAXIMUM_CONNECTIONS }
}

/** Creates or updates the queue's own tables. Part of `npm run migrate`. */
export async function migrateQueue(queueUrl: string): Promise<void> {
  const queue = new Queue(QUEUE_NAME, { connection: { ...connectionTo(queueUrl), migrate: true } })
  await queue.waitUntilReady()
  await queue.close()
}

/** The producing side. Finished messages are not kept: the job's row says everything about it. */
export function createJobQueue(queueUrl: string, onError: (error: Error) => void): JobQueue {
  const queue = new Queue(QUEUE_NAME, {
    connection: connectionTo(queueUrl),
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1 },
  })
  queue.on('error', onError)
  return {
    enqueue: async (jobId) => {
      await queue.add('run', { jobId })
    },
    close: () => queue.close(),
  }
}

/** The consuming side: `run` is called for each delivered id, `concurrency` at once. It must not throw for a failed job. */
export function consumeJobs(options: {
  queueUrl: string
  concurrency: number
  run: (jobId: string) => Promise<void>
  onError: (error: Error) => void
}): JobConsumer {
  const worker = new Worker(QUEUE_NAME, (message) => options.run(messageSchema.parse(message.data).jobId), {
    connection: connectionTo(options.queueUrl),
    concurrency: options.concurrency,
  })
  worker.on('error', options.onError)
  worker.on('failed', (_, error) => options.onError(error))
  return { close: (deadlineMs) => closeWithin(worker, deadlineMs) }
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
