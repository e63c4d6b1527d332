import { type Treatment, treatmentOf } from './choose-treatment.ts'
import { describeAudio } from './ffmpeg/describe-audio.ts'
import type { Ffmpeg } from './ffmpeg/ffmpeg.ts'
import type { AudioLimits } from './limits.ts'
import { type FileFacts, readRecording } from './read-recording.ts'

/** What is known of a recording without converting or splitting it. */
export interface AudioProbe extends FileFacts {
  readonly treatment: Treatment['kind']
  /** Undefined if the file states none, or if ffmpeg would be needed to read it. */
  readonly durationMs: number | undefined
  /** Whether the duration is the one that the service measures; otherwise it is what the file claims. */
  readonly isExact: boolean
}

export interface ProbeOptions {
  readonly limits: AudioLimits
  readonly ffmpeg: Ffmpeg | undefined
  readonly signal?: AbortSignal
}

const MAXIMUM_HELD_BYTES = 256 * 1024 * 1024

/** Measures a recording quickly, for an estimate. Only a prepared recording has the exact price in every case. */
export async function probeRecording(path: string, { limits, ffmpeg, signal }: ProbeOptions): Promise<AudioProbe> {
  const read = await readRecording(path, { maximumContentBytes: MAXIMUM_HELD_BYTES, ...(signal && { signal }) })
  const { content: _, ...facts } = read
  const treatment = treatmentOf(read, limits)
  if (treatment.kind !== 'convert') {
    return { ...facts, treatment: treatment.kind, durationMs: treatment.durationMs, isExact: treatment.kind === 'send' }
  }
  const described = ffmpeg && (await describeAudio(ffmpeg, path, signal))
  return { ...facts, treatment: 'convert', durationMs: described?.durationMs, isExact: false }
}
