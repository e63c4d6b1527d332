import { isFreeFormatAt, layer3BytesAt, newSearchBudget, threeFramesAt } from './find-frame-run.ts'
import { foreignFormatAt, isAdtsAt } from './foreign-format.ts'
import { isInfoFrameAt } from './info-frame.ts'
import { frameLengthAt, layerAt, rateIndexAt, SAMPLE_RATES, SAMPLES_PER_FRAME, streamKeyAt } from './mpeg-header.ts'
import { EXCEEDS_FILE, NO_TAG, startOfTrailingTags, tagBytesAt } from './skip-tags.ts'

/** All audio of one sample rate in a file. */
export interface AudioPart {
  /** Hz. */
  readonly sampleRate: number
  /** Per channel. */
  readonly samples: number
}

/** An upload that is MP3 throughout. */
export interface Mp3Walk {
  readonly outcome: 'mp3'
  /** Exact sum of samples ÷ rate over the parts, in milliseconds, rounded up. */
  readonly durationMs: number
  /** One for each sample rate, in order of appearance. */
  readonly parts: readonly AudioPart[]
  /** Counted frames. */
  readonly frameCount: number
  /** Bytes that are neither frame nor tag, at most `MAXIMUM_UNRECOGNIZED_BYTES`. Excludes a truncated last frame. */
  readonly unrecognizedBytes: number
  /**
   * How often the stream restarts: at tags or unrecognized bytes between frames, or at another rate or channel count.
   */
  readonly discontinuities: number
  /** What a decoder is given, which plays the counted frames of it. */
  readonly decodable: {
    /** First frame after the leading tags, unrecognized bytes and Xing, Info or VBRI frame. */
    readonly offset: number
    /** Bytes from `offset` on that do not belong to counted frames. */
    readonly otherBytes: number
  }
}

/** An upload that is not supported. `found` is a phrase for the public message: "a RIFF/WAVE container". */
export interface UnsupportedWalk {
  readonly outcome: 'unsupported'
  readonly found: string
}

export type FrameWalk = Mp3Walk | UnsupportedWalk

/** What is found where frames do not state their length. ffmpeg, and so most programs and vendors, decodes none of it. */
export const FREE_FORMAT_FOUND = 'MP3 frames in free format'
export const TAG_PAST_END_FOUND = 'an ID3 tag whose size runs past the file'
export const LONE_HEADER_FOUND = 'an MP3 header without audio frames'

/** Limit of unrecognized bytes before, between and after the frames in total. */
const MAXIMUM_UNRECOGNIZED_BYTES = 65_536

// The least common multiple of the nine rates: a sample of any of them is a whole number of ticks, and so is a
// millisecond. The 1.1 million smallest frames that fit into 25 MiB make 1.2e12 ticks, far below the largest safe
// integer.
const TICKS_PER_SECOND = 14_112_000
const TICKS_PER_MILLISECOND = TICKS_PER_SECOND / 1000

// An hour of joined one-second clips has 3,600. Each takes the decoder a third of a millisecond and makes the
// comparison with it less exact, so a file of nothing else would take 20 s of CPU time and could hide audio.
const MAXIMUM_DISCONTINUITIES = 4_000

const NO_STREAM = -1

/** Takes the bytes of a counted frame, from `start` up to, and without, `end`. */
type OnFrame = (start: number, end: number) => void

interface Walk {
  readonly bytes: Uint8Array
  readonly onFrame: OnFrame | undefined
  /** Offset of the trailing tags. */
  readonly end: number
  readonly budget: ReturnType<typeof newSearchBudget>
  position: number
  /** Stream key of the previous frame, or `NO_STREAM`. */
  key: number
  frameCount: number
  hasInfoFrame: boolean
  unrecognizedBytes: number
  discontinuities: number
  /** Of the first counted frame. */
  decodableOffset: number
  countedBytes: number
  /** By `rateIndexAt`. */
  readonly samples: Float64Array
  readonly rateOrder: number[]
}

/**
 * Takes the frame at the position. A Xing, Info or VBRI frame is not counted where decoders look for one: as the first
 * frame. Those of later parts of joined files are played, as silence.
 */
function takeFrame(walk: Walk, length: number): void {
  const { bytes, position } = walk
  if (walk.frameCount === 0 && !walk.hasInfoFrame && isInfoFrameAt(bytes, position, length)) walk.hasInfoFrame = true
  else {
    const rateIndex = rateIndexAt(bytes, position)
    if (walk.samples[rateIndex] === 0) walk.rateOrder.push(rateIndex)
    walk.samples[rateIndex] = (walk.samples[rateIndex] as number) + (SAMPLES_PER_FRAME[rateIndex] as number)
    if (walk.frameCount === 0) walk.decodableOffset = position
    walk.frameCount++
    walk.countedBytes += length
    walk.onFrame?.(position, position + length)
  }
  walk.key = streamKeyAt(bytes, position)
  walk.position += length
}

/** Takes consecutive frames of the current stream. */
function takeFramesOfSameStream(walk: Walk): void {
  const { bytes, end } = walk
  for (;;) {
    const length = layer3BytesAt(bytes, walk.position, end)
    if (length === 0 || streamKeyAt(bytes, walk.position) !== walk.key) return
    if (walk.position + length > end) {
      // A truncated last frame is neither decodable nor unrecognized.
      walk.position = end
      return
    }
    takeFrame(walk, length)
  }
}

/** Returns whether a stream's first frame is confirmed by what follows it: a frame, a tag or the end. */
function isStreamStart(walk: Walk, length: number): boolean {
  const { bytes, end } = walk
  const next = walk.position + length
  if (length === 0 || next > end) return false
  if (next === end) return true
  return layer3BytesAt(bytes, next, end) > 0 || tagBytesAt(bytes, next, end) > 0
}

/** Returns the name of audio other than MP3 where a frame or tag should be. Two frames of another layer suffice. */
function otherAudioAt({ bytes, end, budget }: Walk, offset: number): string | undefined {
  if (isFreeFormatAt(bytes, offset, end, budget)) return FREE_FORMAT_FOUND
  const length = frameLengthAt(bytes, offset, end)
  if (length > 0 && layerAt(bytes, offset) !== 3) {
    const next = offset + length
    const isConfirmed =
      next === end || (frameLengthAt(bytes, next, end) > 0 && streamKeyAt(bytes, next) === streamKeyAt(bytes, offset))
    if (isConfirmed) return layerName(layerAt(bytes, offset))
  }
  return foreignFormatAt(bytes, offset, end)
}

function layerName(layer: number): string {
  return layer === 1 ? 'MPEG layer I audio' : 'MPEG layer II audio'
}

/** Moves to the next three consistent frames. Returns what makes the file unsupported, if anything. */
function resynchronize(walk: Walk): string | undefined {
  const { bytes, end } = walk
  const start = walk.position
  const farthest = start + MAXIMUM_UNRECOGNIZED_BYTES - walk.unrecognizedBytes
  let candidate = bytes.indexOf(0xff, start + 1)
  for (; candidate >= 0 && candidate < end && candidate <= farthest; candidate = bytes.indexOf(0xff, candidate + 1)) {
    if (threeFramesAt(bytes, candidate, end)) {
      const layer = layerAt(bytes, candidate)
      if (layer !== 3) return layerName(layer)
      break
    }
    if (isAdtsAt(bytes, candidate, end)) return 'ADTS AAC audio'
    if (isFreeFormatAt(bytes, candidate, end, walk.budget)) return FREE_FORMAT_FOUND
  }
  walk.position = candidate < 0 ? end : Math.min(candidate, end)
  walk.unrecognizedBytes += walk.position - start
  if (walk.unrecognizedBytes <= MAXIMUM_UNRECOGNIZED_BYTES) return undefined
  const limit = MAXIMUM_UNRECOGNIZED_BYTES.toLocaleString('en-US')
  return walk.frameCount === 0
    ? `no MPEG audio frames in the first ${limit} bytes`
    : `more than ${limit} bytes that are not MP3 frames`
}

/** Takes one step after the current stream has ended. Returns what makes the file unsupported, if anything. */
function stepOver(walk: Walk): string | undefined {
  const { bytes, end } = walk
  const hadFrames = walk.key !== NO_STREAM
  const tagBytes = tagBytesAt(bytes, walk.position, end)
  if (tagBytes === EXCEEDS_FILE) return TAG_PAST_END_FOUND
  const length = layer3BytesAt(bytes, walk.position, end)
  if (tagBytes !== NO_TAG) walk.position += tagBytes
  else if (isStreamStart(walk, length)) takeFrame(walk, length)
  else {
    const found = otherAudioAt(walk, walk.position) ?? resynchronize(walk)
    if (found !== undefined) return found
    if (walk.position < end) takeFrame(walk, layer3BytesAt(bytes, walk.position, end))
  }
  if (hadFrames && walk.position < end) walk.discontinuities++
  if (walk.discontinuities <= MAXIMUM_DISCONTINUITIES) return undefined
  return `more than ${MAXIMUM_DISCONTINUITIES.toLocaleString('en-US')} breaks in the stream of frames`
}

function partsOf({ rateOrder, samples }: Walk): AudioPart[] {
  return rateOrder.map((index) => ({
    sampleRate: SAMPLE_RATES[index] as number,
    samples: samples[index] as number,
  }))
}

/** Returns the parts' total duration in milliseconds: summed exactly, then rounded up. */
function durationMsOf(parts: readonly AudioPart[]): number {
  let ticks = 0
  for (const { sampleRate, samples } of parts) ticks += samples * (TICKS_PER_SECOND / sampleRate)
  return Math.ceil(ticks / TICKS_PER_MILLISECOND)
}

/**
 * Determines from a whole file whether it is an MP3 and how long it is: skips tags by their structure, checks every
 * frame header and counts samples. Ignores all claims of headers about the whole file.
 *
 * Never throws; takes time linear in the length. Does not count an incomplete last frame, which no decoder plays.
 * Sources: ISO/IEC 11172-3, ISO/IEC 13818-3; `skip-tags.ts` names those of the tags.
 */
export function walkFrames(bytes: Uint8Array, onFrame?: OnFrame): FrameWalk {
  if (bytes.length === 0) return { outcome: 'unsupported', found: 'an empty file' }
  const walk: Walk = {
    bytes,
    onFrame,
    end: startOfTrailingTags(bytes),
    budget: newSearchBudget(),
    position: 0,
    key: NO_STREAM,
    frameCount: 0,
    hasInfoFrame: false,
    unrecognizedBytes: 0,
    discontinuities: 0,
    decodableOffset: 0,
    countedBytes: 0,
    samples: new Float64Array(SAMPLE_RATES.length),
    rateOrder: [],
  }
  while (walk.position < walk.end) {
    const found = stepOver(walk)
    if (found !== undefined) return { outcome: 'unsupported', found }
    takeFramesOfSameStream(walk)
  }
  if (walk.frameCount === 0) {
    const found = walk.hasInfoFrame ? LONE_HEADER_FOUND : 'no MPEG audio frames'
    return { outcome: 'unsupported', found }
  }
  const parts = partsOf(walk)
  return {
    outcome: 'mp3',
    durationMs: durationMsOf(parts),
    parts,
    frameCount: walk.frameCount,
    unrecognizedBytes: walk.unrecognizedBytes,
    discontinuities: walk.discontinuities,
    decodable: {
      offset: walk.decodableOffset,
      otherBytes: bytes.length - walk.decodableOffset - walk.countedBytes,
    },
  }
}
