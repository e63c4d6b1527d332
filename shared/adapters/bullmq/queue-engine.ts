import type { QueueName } from '#shared/jobs/job-queue.ts'

/** The part of BullMQ's `Queue` that is used. */
export interface Producer {
  on(event: 'error', listener: (error: Error) => void): unknown
  add(name: string, data: unknown): Promise<unknown>
  close(): Promise<void>
}

/** The part of BullMQ's `Worker` that is used. */
export interface Consumer {
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'failed', listener: (job: unknown, error: Error) => void): unknown
  isPaused(): boolean
  pause(doNotWaitActive: boolean): Promise<void>
  /** Reports a failure as an event. */
  resume(): Promise<void>
  close(): Promise<void>
}

/** BullMQ on one backend, connected. All queues of a process share its connections. */
export interface QueueEngine {
  createProducer(name: QueueName): Producer
  createConsumer(name: QueueName, concurrency: number, handle: (message: { data: unknown }) => Promise<void>): Consumer
  /** Throws when messages cannot be added, or would not be kept. */
  check(): Promise<void>
  /** Ends the connections. Producers and consumers must be closed before. */
  close(): Promise<void>
}

/** Finished messages are deleted and none is retried: the job's row is the only record of a job. */
export const MESSAGE_OPTIONS = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const

/** How soon a consumer retries after a connection error. BullMQ's default of 15 seconds would delay callers. */
export const CONSUMER_RETRY_MS = 1000
