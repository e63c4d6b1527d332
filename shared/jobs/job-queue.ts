import { OPERATION_QUEUES } from '#shared/operations/queues.ts'
import { operationById } from '#shared/operations/registry.ts'
import type { JobState } from './job.ts'

/** One queue for each kind of provider work, so that none waits behind another, and one for settlement. */
export const QUEUE_NAMES = [...OPERATION_QUEUES, 'settlement'] as const

export type QueueName = (typeof QUEUE_NAMES)[number]

/** Returns the queue for a job's next step: that of its operation until the result is stored, then settlement. */
export function queueOf({ operation, state }: { readonly operation: string; readonly state: JobState }): QueueName {
  if (state === 'generated' || state === 'settling') return 'settlement'
  return operationById(operation).queue
}

/**
 * Carries job ids from the API to the workers. It may lose or repeat them: the row is authoritative, sweepers enqueue
 * again.
 */
export interface JobQueue {
  /** Rejects within a few seconds when the queue cannot be reached. */
  enqueue(jobId: string, queue: QueueName): Promise<void>
  /** Rejects when the queue cannot be used at the moment. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Delivers job ids to a handler, up to the concurrency of each queue. */
export interface JobConsumer {
  /**
   * Takes no jobs of these queues, and those of all others. Running jobs end as usual. Of each queue, one job that it was
   * waiting for may still be delivered.
   */
  pause(queues: ReadonlySet<QueueName>): void
  /** Returns how many delivered jobs of each queue have not returned yet. */
  activeJobs(): ReadonlyMap<QueueName, number>
  /** Stops taking jobs and waits for the running ones, at most `deadlineMs`. */
  close(deadlineMs: number): Promise<void>
}

/** The jobs of one queue according to their rows; the queue itself may have more or fewer messages. */
export interface QueueTotals {
  /** Due, and leased by no worker. */
  readonly waiting: number
  readonly running: number
  /** Tried before without progress, or to be tried later. */
  readonly deferred: number
  /** How long the oldest waiting job has been due; 0 when none waits. */
  readonly oldestWaitingSeconds: number
  /** Since when the longest-deferred job has been deferred in its state; 0 when none is. */
  readonly oldestDeferredSeconds: number
}
