/** Carries job ids from the API to the workers. It may lose or repeat them: the row decides, sweepers enqueue again. */
export interface JobQueue {
  enqueue(jobId: string): Promise<void>
  close(): Promise<void>
}

/** Delivers job ids to a handler, up to its own concurrency at once. */
export interface JobConsumer {
  /** Stops taking jobs and waits for the running ones, at most `deadlineMs`. */
  close(deadlineMs: number): Promise<void>
}
