import type { MeasuredRecording } from './plan-cache.ts'
import type { MeasuredSource } from './planned-file.ts'

/** A recording's content and the sources that have it. */
export interface Content {
  readonly recording: MeasuredRecording
  readonly occurrence: number
  /** Sources whose transcripts are to be written. */
  readonly targets: readonly MeasuredSource[]
  /** The first source that has it, which may be finished. */
  readonly first: MeasuredSource
}
