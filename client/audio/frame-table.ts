import { layer3BytesAt } from '../../packages/mp3/find-frame-run.ts'
import { isInfoFrameAt } from '../../packages/mp3/info-frame.ts'
import { rateIndexAt, SAMPLES_PER_FRAME, streamKeyAt } from '../../packages/mp3/mpeg-header.ts'
import type { Mp3Walk } from '../../packages/mp3/walk-frames.ts'
import { readHeaderFrame } from './header-frame.ts'

/** The frames of an MP3 that is one uninterrupted stream, so that it can be cut and joined without another encoding. */
export interface FrameTable {
  readonly bytes: Uint8Array
  /** Byte offset of each frame, and of the end of the last one. */
  readonly offsets: Float64Array
  readonly frameCount: number
  readonly sampleRate: number
  readonly samplesPerFrame: number
  /** Equal for streams that can be joined: version, sample rate, and mono or stereo. */
  readonly streamKey: number
  /** Samples that decoders skip at the beginning as long as the header frame is there, and no longer without it. */
  readonly skippedSamples: number
}

/**
 * Returns the frames of a walked MP3 without its header frame and tags, or undefined if the stream restarts somewhere,
 * changes its rate, or has the header frame of another file.
 */
export function frameTableOf(bytes: Uint8Array, walk: Mp3Walk): FrameTable | undefined {
  const [part] = walk.parts
  if (part === undefined || walk.parts.length > 1 || walk.discontinuities > 0) return undefined
  const { offset: start } = walk.decodable
  const samplesPerFrame = SAMPLES_PER_FRAME[rateIndexAt(bytes, start)] as number
  const offsets = new Float64Array(walk.frameCount + 1)
  let position = start
  for (let frame = 0; frame < walk.frameCount; frame++) {
    offsets[frame] = position
    const length = layer3BytesAt(bytes, position, bytes.length)
    // A decoder would not play it at the beginning of a part.
    if (length === 0 || isInfoFrameAt(bytes, position, length)) return undefined
    position += length
  }
  offsets[walk.frameCount] = position
  return {
    bytes,
    offsets,
    frameCount: walk.frameCount,
    sampleRate: part.sampleRate,
    samplesPerFrame,
    streamKey: streamKeyAt(bytes, start),
    skippedSamples: readHeaderFrame(bytes, walk).skippedSamples,
  }
}

/** Returns the time at which a frame begins, in milliseconds, exact but for the floating point. */
export function timeOfFrame(table: FrameTable, frame: number): number {
  return (frame * table.samplesPerFrame * 1000) / table.sampleRate
}

/** Returns by how many milliseconds sound is later in the bare frames than in the whole file. */
export function delayOfFrames({ skippedSamples, sampleRate }: FrameTable): number {
  return (skippedSamples * 1000) / sampleRate
}

/** Returns the number of the frame that begins nearest to a time. */
export function frameNear(table: FrameTable, timeMs: number): number {
  const frame = Math.round((timeMs * table.sampleRate) / (1000 * table.samplesPerFrame))
  return Math.min(table.frameCount, Math.max(0, frame))
}

/** Returns the number of the frame in which a time is. */
export function frameAt(table: FrameTable, timeMs: number): number {
  // A time that was computed from a frame may be below it by the floating point.
  const frame = Math.floor((timeMs * table.sampleRate) / (1000 * table.samplesPerFrame) + 1e-6)
  return Math.min(table.frameCount, Math.max(0, frame))
}

/** Returns the bytes of the frames from one number up to, and without, another. */
export function framesBetween(table: FrameTable, from: number, to: number): Uint8Array {
  return table.bytes.subarray(table.offsets[from], table.offsets[to])
}

/** Returns the largest number of a frame up to which the frames from `from` on have at most so many bytes. */
export function lastFrameWithin(table: FrameTable, from: number, maximumBytes: number): number {
  const limit = (table.offsets[from] as number) + maximumBytes
  let low = from
  let high = table.frameCount
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((table.offsets[middle] as number) <= limit) low = middle
    else high = middle - 1
  }
  return low
}
