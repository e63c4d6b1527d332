import { z } from 'zod'
import { parseQueueUrl } from './queue-url.ts'

/** Settings of the queue's location, the same for API, workers and the migration. */
export const queueSettings = {
  /** Defaults to the database. */
  QUEUE_URL: z
    .string()
    .check(({ value, issues }) => {
      try {
        parseQueueUrl(value)
      } catch (error) {
        const message = error instanceof Error ? error.message : 'unreadable'
        // The input contains a password.
        issues.push({ code: 'custom', message, input: undefined })
      }
    })
    .optional(),
  /**
   * Separates services on the same Redis. The braces keep all keys in one slot of a cluster, as multi-key scripts
   * require.
   */
  QUEUE_PREFIX: z
    .string()
    .regex(/^[^{}]*\{[^{}]+\}[^{}]*$/, 'QUEUE_PREFIX needs one hash tag in braces, like {farebox}')
    .default('{farebox}'),
}

export interface QueueSettings {
  readonly DATABASE_URL: string
  readonly QUEUE_URL?: string | undefined
  readonly QUEUE_PREFIX: string
}
