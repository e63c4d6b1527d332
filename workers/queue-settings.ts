import { z } from 'zod'
import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'

const concurrency = z.coerce.number().int().min(1)

/** Settings of the queues that a worker serves, and of its concurrency per queue. */
export const workerQueueSettings = {
  /** Defaults to all queues; `settlement` alone makes a process that only settles. */
  WORKER_QUEUES: z
    .string()
    .default(QUEUE_NAMES.join(','))
    .transform((list) => list.split(',').map((name) => name.trim()))
    .pipe(z.array(z.enum(QUEUE_NAMES)).nonempty()),
  /**
   * Jobs that are prepared, call a provider or sign at the same time, for each queue without its own setting. Those that
   * wait for the chain do not count. High, since memory and each deployment have limits of their own.
   */
  WORKER_CONCURRENCY: concurrency.default(1000),
  WORKER_CONCURRENCY_TEXT: concurrency.optional(),
  WORKER_CONCURRENCY_IMAGES: concurrency.optional(),
  WORKER_CONCURRENCY_SPEECH: concurrency.optional(),
  WORKER_CONCURRENCY_TRANSCRIPTIONS: concurrency.optional(),
  WORKER_CONCURRENCY_SETTLEMENT: concurrency.optional(),
  /** How long jobs may continue after a signal; the process manager needs a few seconds more. */
  DRAIN_SECONDS: z.coerce.number().positive().default(30),
}

const settingsSchema = z.object(workerQueueSettings)

/** Returns how many jobs of each served queue run concurrently. */
export function concurrencyOf(settings: z.infer<typeof settingsSchema>): ReadonlyMap<QueueName, number> {
  const specific = {
    text: settings.WORKER_CONCURRENCY_TEXT,
    images: settings.WORKER_CONCURRENCY_IMAGES,
    speech: settings.WORKER_CONCURRENCY_SPEECH,
    transcriptions: settings.WORKER_CONCURRENCY_TRANSCRIPTIONS,
    settlement: settings.WORKER_CONCURRENCY_SETTLEMENT,
  } as const satisfies Record<QueueName, number | undefined>
  return new Map(settings.WORKER_QUEUES.map((name) => [name, specific[name] ?? settings.WORKER_CONCURRENCY]))
}
