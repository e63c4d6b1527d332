import { operationById } from '#shared/operations/registry.ts'
import type { JobState } from './job.ts'

/** One queue for each kind of upstream work, so that none waits behind another, and one for what collects money. */
export const queueNames = ['text', 'images', 'speech', 'transcriptions', 'settlement'] as const

export type QueueName = (typeof queueNames)[number]

const queueOfCategory = {
  text_generation: 'text',
  image_generation: 'images',
  text_to_speech: 'speech',
  speech_to_text: 'transcriptions',
} as const satisfies Record<string, QueueName>

/** Where a job goes next: to the queue of its operation until its result is stored, then to settlement. */
export function queueOf({ operation, state }: { readonly operation: string; readonly state: JobState }): QueueName {
  if (state === 'generated' || state === 'settling') return 'settlement'
  return queueOfCategory[operationById(operation).category]
}

/** Carries job ids from the API to the workers. It may lose or repeat them: the row decides, sweepers enqueue again. */
export interface JobQueue {
  /** Fails within some seconds when the queue cannot be reached; it never holds up its caller for longer. */
  enqueue(jobId: string, queue: QueueName): Promise<void>
  /** Throws when the queue cannot be used at the moment. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Delivers job ids to a handler, for each queue up to its own concurrency at once. */
export interface JobConsumer {
  /** Stops taking jobs and waits for the running ones, at most `deadlineMs`. */
  close(deadlineMs: number): Promise<void>
}
