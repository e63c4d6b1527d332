import { delayOfFrames, type FrameTable, framesBetween } from '../frame-table.ts'
import { silentFrameLike } from '../silent-frames.ts'
import { DEFAULT_GAP_MS } from './plan-packs.ts'

/** Where a clip is within its pack. */
export interface Span {
  readonly startMs: number
  readonly endMs: number
}

export interface Pack {
  readonly content: Uint8Array
  /** One for each clip, in their order. */
  readonly spans: readonly Span[]
}

/** Joins the frames of clips with silent frames between them, without another encoding. Their stream keys must be equal. */
export function buildPack(clips: readonly FrameTable[], gapMs = DEFAULT_GAP_MS): Pack {
  const [first] = clips
  if (first === undefined) throw new RangeError('a pack has at least one clip')
  if (clips.some(({ streamKey }) => streamKey !== first.streamKey))
    throw new RangeError('clips of different sample rates or channels cannot be joined')
  const { samplesPerFrame, sampleRate } = first
  const gapFrames = Math.ceil((gapMs * sampleRate) / (1000 * samplesPerFrame))
  const silence = Buffer.concat(Array<Uint8Array>(gapFrames).fill(silentFrameLike(framesBetween(first, 0, 1))))
  const pieces: Uint8Array[] = []
  const spans: Span[] = []
  const timeOf = (frames: number) => (frames * samplesPerFrame * 1000) / sampleRate
  let frames = 0
  for (const clip of clips) {
    if (pieces.length > 0) {
      pieces.push(silence)
      frames += gapFrames
    }
    pieces.push(framesBetween(clip, 0, clip.frameCount))
    // Without its header frame, the clip's beginning is no longer skipped.
    spans.push({ startMs: timeOf(frames) + delayOfFrames(clip), endMs: timeOf(frames + clip.frameCount) })
    frames += clip.frameCount
  }
  return { content: Buffer.concat(pieces), spans }
}
