import type { QueueName } from '#shared/jobs/job-queue.ts'

/** The little of BullMQ's `Queue` that is used. */
export interface Producer {
  on(event: 'error', listener: (error: Error) => void): unknown
  add(name: string, data: unknown): Promise<unknown>
  close(): Promise<void>
}

/** The little of BullMQ's `Worker` that is used. */
export interface Taker {
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'failed', listener: (job: unknown, error: Error) => void): unknown
  close(): Promise<void>
}

/** BullMQ over one engine. All queues of a process share its connections; it is ready when it was opened. */
export interface QueueEngine {
  createProducer(name: QueueName): Producer
  createTaker(name: QueueName, concurrency: number, take: (message: { data: unknown }) => Promise<void>): Taker
  /** Throws when messages cannot be added, or would not be kept. */
  check(): Promise<void>
  /** Ends the connections; close producers and takers first. */
  close(): Promise<void>
}

/** Finished messages are not kept, and none is repeated: the job's row says everything about it. */
export const messageOptions = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const

/** After an error of its connection a taker asks again this soon; BullMQ's own 15 seconds would be a caller's wait. */
export const TAKER_RETRY_MS = 1000

/** How long a start-up waits for an engine that does not answer. */
export const CONNECT_TIMEOUT_MS = 5000
