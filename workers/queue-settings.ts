import { z } from 'zod'
import { type QueueName, queueNames } from '#shared/jobs/job-queue.ts'

const concurrency = z.coerce.number().int().min(1)

/** Which queues a worker process serves, and how many jobs of each at once. */
export const workerQueueSettings = {
  /** All when left out. A process that only settles is `settlement`. */
  WORKER_QUEUES: z
    .string()
    .default(queueNames.join(','))
    .transform((list) => list.split(',').map((name) => name.trim()))
    .pipe(z.array(z.enum(queueNames)).nonempty()),
  /** For each queue without a setting of its own. */
  WORKER_CONCURRENCY: concurrency.default(16),
  WORKER_CONCURRENCY_TEXT: concurrency.optional(),
  WORKER_CONCURRENCY_IMAGES: concurrency.optional(),
  WORKER_CONCURRENCY_SPEECH: concurrency.optional(),
  WORKER_CONCURRENCY_TRANSCRIPTIONS: concurrency.optional(),
  WORKER_CONCURRENCY_SETTLEMENT: concurrency.optional(),
  /** How long jobs may go on after a signal; give the process manager some seconds more. */
  DRAIN_SECONDS: z.coerce.number().positive().default(30),
}

const settingsSchema = z.object(workerQueueSettings)

/** How many jobs of each served queue run at once. */
export function concurrencyOf(settings: z.infer<typeof settingsSchema>): ReadonlyMap<QueueName, number> {
  const own = {
    text: settings.WORKER_CONCURRENCY_TEXT,
    images: settings.WORKER_CONCURRENCY_IMAGES,
    speech: settings.WORKER_CONCURRENCY_SPEECH,
    transcriptions: settings.WORKER_CONCURRENCY_TRANSCRIPTIONS,
    settlement: settings.WORKER_CONCURRENCY_SETTLEMENT,
  } as const satisfies Record<QueueName, number | undefined>
  return new Map(settings.WORKER_QUEUES.map((name) => [name, own[name] ?? settings.WORKER_CONCURRENCY]))
}
