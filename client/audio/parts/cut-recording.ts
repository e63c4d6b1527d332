import { decodeFrames, type Ffmpeg, findSilences } from '../ffmpeg.ts'
import {
  delayOfFrames,
  type FrameTable,
  frameAt,
  frameNear,
  framesBetween,
  lastFrameWithin,
  timeOfFrame,
} from '../frame-table.ts'
import type { AudioLimits } from '../limits.ts'
import { LONGEST_LEAD_IN_BYTES, leadInFrame } from '../silent-frames.ts'
import { type CutOptions, type Cuttable, planCuts, type Silence } from './plan-parts.ts'
import { quietestMomentMs } from './quietest-moment.ts'

/** A part of a recording: an MP3 of its own. */
export interface AudioPart {
  readonly content: Uint8Array
  /** The time of the recording at which its first sample is. */
  readonly startMs: number
}

interface CutRequest extends CutOptions {
  /** Names the recording in errors. */
  readonly path: string
  readonly limits: AudioLimits
  /** Called only if the recording does not fit into one part. */
  readonly requireFfmpeg: () => Ffmpeg
  readonly signal?: AbortSignal
}

/** Frames before a window that are decoded with it, since a frame may need the bytes of several frames before it. */
const LEADING_FRAMES = 12

/** Cuts an MP3 between its frames, without encoding it again, into parts within the limits. */
export async function cutRecording(table: FrameTable, request: CutRequest): Promise<AudioPart[]> {
  const { path, limits, requireFfmpeg, signal } = request
  const recording = cuttable(table, limits)
  const { durationMs } = recording
  let cuts: number[] = []
  if (recording.latestEndMs(0) < durationMs) {
    const source = { path, ffmpeg: requireFfmpeg(), ...(signal && { signal }) }
    const silences = await findSilences(framesBetween(table, 0, table.frameCount), source)
    const quietestMs = async (window: Silence) => {
      const from = Math.max(0, frameNear(table, window.startMs) - LEADING_FRAMES)
      const decoded = await decodeFrames(framesBetween(table, from, frameNear(table, window.endMs)), source)
      const skipped = Math.round(((window.startMs - timeOfFrame(table, from)) * decoded.sampleRate) / 1000)
      return window.startMs + quietestMomentMs(decoded.samples.subarray(skipped), decoded.sampleRate)
    }
    cuts = await planCuts(recording, silences, quietestMs, request)
  }
  const edges = [0, ...cuts, durationMs].map((timeMs) => frameNear(table, timeMs))
  return edges.slice(1).map((end, index) => partOf(table, edges[index] as number, end))
}

/** Returns the frames from one number up to, and without, another, as an MP3 that can be decoded on its own. */
function partOf(table: FrameTable, start: number, end: number): AudioPart {
  const frames = framesBetween(table, start, end)
  const leadIn = leadInFrame(table, start)
  const first = leadIn === undefined ? start : start - 1
  return {
    content: leadIn === undefined ? frames : Buffer.concat([leadIn, frames]),
    startMs: timeOfFrame(table, first) - delayOfFrames(table),
  }
}

/** Returns where the frames of an MP3 can be cut so that no part exceeds the limits. */
export function cuttable(table: FrameTable, { maximumBytes, maximumDurationMs }: AudioLimits): Cuttable {
  const { sampleRate, samplesPerFrame, frameCount } = table
  const longest = Math.floor((maximumDurationMs * sampleRate) / (1000 * samplesPerFrame))
  return {
    durationMs: timeOfFrame(table, frameCount),
    // The first frame after a cut is not exact, because it overlaps with the one before: it should be the quiet one.
    cutBeforeMs: (timeMs) => timeOfFrame(table, frameAt(table, timeMs)),
    latestEndMs: (startMs) => {
      const start = frameNear(table, startMs)
      // Any part but the first may need a lead-in frame.
      const [frames, bytes] = start === 0 ? [0, 0] : [1, LONGEST_LEAD_IN_BYTES]
      return timeOfFrame(table, Math.min(start + longest - frames, lastFrameWithin(table, start, maximumBytes - bytes)))
    },
  }
}
