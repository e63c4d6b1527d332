import type { MeasuredRecording, StatedRecording } from './plan-cache.ts'
import type { MeasuredSource } from './planned-file.ts'

/** A recording's content and the sources that have it. */
export interface Content<Recording = MeasuredRecording | StatedRecording> {
  readonly recording: Recording
  readonly occurrence: number
  /** Sources whose transcripts are to be written. */
  readonly targets: readonly MeasuredSource[]
  /** The first source that has it, which may be finished. */
  readonly first: MeasuredSource
}

/** Whether it is prepared already, as only clips that may be packed and recordings that are sent as they are have to be. */
export function isMeasured(content: Content): content is Content<MeasuredRecording> {
  return !('statedMs' in content.recording)
}
