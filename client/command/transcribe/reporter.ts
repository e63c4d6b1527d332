import type { BatchEvent } from '../../batch/types.ts'

/** Shows a running batch to people or programs. */
export interface BatchReporter {
  onEvent(event: BatchEvent): void
  /** Leaves the terminal as other programs expect it. */
  close(): void
}
