import { layer3BytesAt, newFreeFormatState, threeFramesAt } from './find-frame-run.ts'
import { foreignFormatAt, isAdtsAt } from './foreign-format.ts'
import { isInfoFrameAt, isSilentFrameAt } from './info-frame.ts'
import {
  byteAt,
  frameLengthAt,
  layerAt,
  rateIndexAt,
  sampleRates,
  samplesPerFrame,
  streamKeyAt,
} from './mpeg-header.ts'
import { noTag, runsPastTheFile, startOfTrailingTags, tagBytesAt } from './skip-tags.ts'

/** All audio of one sample rate, wherever it stands in the file. */
export interface AudioPart {
  /** Hz. */
  readonly sampleRate: number
  /** Per channel. */
  readonly samples: number
}

/** An upload that is MP3 throughout. */
export interface Mp3Walk {
  readonly outcome: 'mp3'
  /** Exact sum over the parts of samples ÷ rate, in milliseconds, rounded up. */
  readonly durationMs: number
  /** In order of appearance; one entry for each sample rate. */
  readonly parts: readonly AudioPart[]
  /** Counted frames. */
  readonly frameCount: number
  /** Bytes that are neither frame nor tag; at most `maximumUnrecognisedBytes`. A cut last frame is not among them. */
  readonly unrecognisedBytes: number
  /** Places where the stream starts anew: tags or unrecognised bytes between frames, another rate or channel count. */
  readonly discontinuities: number
  /** What a decoder that reads on from `offset` to the end of the file should find. */
  readonly decodable: {
    /** First frame behind the leading tags, unrecognised bytes and Xing, Info or VBRI frame. */
    readonly offset: number
    /** Counted frames except free format, which ffmpeg cannot decode, and the Xing frames of later parts, which it plays. */
    readonly parts: readonly AudioPart[]
    /** Bytes from `offset` on that are none of those frames. */
    readonly otherBytes: number
  }
}

/** An upload that is refused. `found` is a phrase for the public message: "a RIFF/WAVE container". */
export interface UnsupportedWalk {
  readonly outcome: 'unsupported'
  readonly found: string
}

export type FrameWalk = Mp3Walk | UnsupportedWalk

/** What may stand before, between and behind the frames in total without the upload being refused. */
const maximumUnrecognisedBytes = 65_536

// The least common multiple of the nine rates: a sample of any of them is a whole number of ticks, and so is a millisecond.
// The 1.1 million smallest frames that 25 MiB hold make 1.2e12 ticks, far inside the safe integers.
const ticksPerSecond = 14_112_000
const ticksPerMillisecond = ticksPerSecond / 1000

// An hour of joined one-second clips has 3,600. Each costs the decoder a third of a millisecond and loosens the comparison
// with it, so a file made of nothing else would buy 20 s of processor time and hide audio.
const maximumDiscontinuities = 4_000

// A player that knows no Xing frame plays it as silence, so a file made of them could be heard for longer than it is
// counted. Sixteen joined clips of any length go uncounted, and from there one frame in 32.
const freeInfoFrames = 16
const framesPerInfoFrame = 32

const noStream = -1

interface Walk {
  readonly bytes: Uint8Array
  /** Where the trailing tags begin. */
  readonly end: number
  readonly freeFormat: ReturnType<typeof newFreeFormatState>
  position: number
  /** Stream key of the frame before, or `noStream` where none was. */
  key: number
  frameCount: number
  infoFrames: number
  unrecognisedBytes: number
  discontinuities: number
  /** -1 until the first frame that a decoder plays. */
  decodableOffset: number
  decodableBytes: number
  /** By `rateIndexAt`. */
  readonly samples: Float64Array
  readonly decodableSamples: Float64Array
  readonly rateOrder: number[]
}

function isUncountedInfoFrame(walk: Walk, length: number): boolean {
  if (!isInfoFrameAt(walk.bytes, walk.position, length)) return false
  if (walk.frameCount === 0 && walk.infoFrames === 0) return true
  const permitted = freeInfoFrames + walk.frameCount / framesPerInfoFrame
  return walk.infoFrames < permitted && isSilentFrameAt(walk.bytes, walk.position)
}

function takeFrame(walk: Walk, length: number): void {
  const { bytes, position } = walk
  const rateIndex = rateIndexAt(bytes, position)
  const samples = samplesPerFrame[rateIndex] as number
  const isInfoFrame = isUncountedInfoFrame(walk, length)
  const isLeadingInfoFrame = isInfoFrame && walk.frameCount === 0 && walk.infoFrames === 0
  if (isInfoFrame) walk.infoFrames++
  else {
    if (walk.samples[rateIndex] === 0) walk.rateOrder.push(rateIndex)
    walk.samples[rateIndex] = (walk.samples[rateIndex] as number) + samples
    walk.frameCount++
  }
  if (!isLeadingInfoFrame) {
    if (walk.decodableOffset < 0) walk.decodableOffset = position
    if (byteAt(bytes, position + 2) >> 4 !== 0) {
      walk.decodableSamples[rateIndex] = (walk.decodableSamples[rateIndex] as number) + samples
      walk.decodableBytes += length
    }
  }
  walk.key = streamKeyAt(bytes, position)
  walk.position += length
}

/** Takes frames of the stream under way for as long as they follow one another. */
function takeFramesOfSameStream(walk: Walk): void {
  const { bytes, end } = walk
  for (;;) {
    const length = layer3BytesAt(bytes, walk.position, end, walk.freeFormat)
    if (length === 0 || streamKeyAt(bytes, walk.position) !== walk.key) return
    if (walk.position + length > end) {
      // A cut last frame is neither decodable nor foreign: not counted, not held against the file.
      walk.position = end
      return
    }
    takeFrame(walk, length)
  }
}

/** Whether a first frame at a place where one is due is borne out by what follows: a frame, a tag or the end. */
function isStreamStart(walk: Walk, length: number): boolean {
  const { bytes, end } = walk
  const next = walk.position + length
  if (length === 0 || next > end) return false
  if (next === end) return true
  return layer3BytesAt(bytes, next, end, walk.freeFormat) > 0 || tagBytesAt(bytes, next, end) > 0
}

/** Names what is not MP3 at a place where a frame or tag is due. Two frames of another layer are enough to name it. */
function otherAudioAt(bytes: Uint8Array, offset: number, end: number): string | undefined {
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

/** Moves to the next three consistent frames. Returns what else was found on the way, if anything. */
function resynchronise(walk: Walk): string | undefined {
  const { bytes, end } = walk
  const start = walk.position
  const farthest = start + maximumUnrecognisedBytes - walk.unrecognisedBytes
  let candidate = bytes.indexOf(0xff, start + 1)
  for (; candidate >= 0 && candidate < end && candidate <= farthest; candidate = bytes.indexOf(0xff, candidate + 1)) {
    if (threeFramesAt(bytes, candidate, end, walk.freeFormat)) {
      const layer = layerAt(bytes, candidate)
      if (layer !== 3) return layerName(layer)
      break
    }
    if (isAdtsAt(bytes, candidate, end)) return 'ADTS AAC audio'
  }
  walk.position = candidate < 0 ? end : Math.min(candidate, end)
  walk.unrecognisedBytes += walk.position - start
  if (walk.unrecognisedBytes <= maximumUnrecognisedBytes) return undefined
  const limit = maximumUnrecognisedBytes.toLocaleString('en-US')
  return walk.frameCount === 0
    ? `no MPEG audio frames in the first ${limit} bytes`
    : `more than ${limit} bytes that are not MP3 frames`
}

/** One step where no frame of the stream under way follows. Returns what makes the file unsupported, if anything. */
function stepOver(walk: Walk): string | undefined {
  const { bytes, end } = walk
  const hadFrames = walk.key !== noStream
  const tagBytes = tagBytesAt(bytes, walk.position, end)
  if (tagBytes === runsPastTheFile) return 'an ID3 tag whose size runs past the file'
  const length = layer3BytesAt(bytes, walk.position, end, walk.freeFormat)
  if (tagBytes !== noTag) walk.position += tagBytes
  else if (isStreamStart(walk, length)) takeFrame(walk, length)
  else {
    const found = otherAudioAt(bytes, walk.position, end) ?? resynchronise(walk)
    if (found !== undefined) return found
    if (walk.position < end) takeFrame(walk, layer3BytesAt(bytes, walk.position, end, walk.freeFormat))
  }
  if (hadFrames && walk.position < end) walk.discontinuities++
  if (walk.discontinuities <= maximumDiscontinuities) return undefined
  return `more than ${maximumDiscontinuities.toLocaleString('en-US')} breaks in the stream of frames`
}

function partsOf(walk: Walk, samples: Float64Array): AudioPart[] {
  const parts: AudioPart[] = []
  for (const index of walk.rateOrder) {
    const count = samples[index] as number
    if (count > 0) parts.push({ sampleRate: sampleRates[index] as number, samples: count })
  }
  return parts
}

/** Milliseconds that the parts last together: summed exactly, then rounded up. */
function durationMsOf(parts: readonly AudioPart[]): number {
  let ticks = 0
  for (const { sampleRate, samples } of parts) ticks += samples * (ticksPerSecond / sampleRate)
  return Math.ceil(ticks / ticksPerMillisecond)
}

/**
 * Decides from the bytes alone whether an upload is an MP3 and how long it lasts: tags are skipped by their structure,
 * every frame header is checked, samples are counted, and nothing that a header claims about the whole is believed.
 *
 * Takes the whole file. Never throws; time is linear in its length. A last frame that is not whole is not counted, since
 * no decoder plays it. Sources: ISO/IEC 11172-3, ISO/IEC 13818-3; `skip-tags.ts` names those of the tags.
 */
export function walkFrames(bytes: Uint8Array): FrameWalk {
  if (bytes.length === 0) return { outcome: 'unsupported', found: 'an empty file' }
  const walk: Walk = {
    bytes,
    end: startOfTrailingTags(bytes),
    freeFormat: newFreeFormatState(),
    position: 0,
    key: noStream,
    frameCount: 0,
    infoFrames: 0,
    unrecognisedBytes: 0,
    discontinuities: 0,
    decodableOffset: -1,
    decodableBytes: 0,
    samples: new Float64Array(sampleRates.length),
    decodableSamples: new Float64Array(sampleRates.length),
    rateOrder: [],
  }
  while (walk.position < walk.end) {
    const found = stepOver(walk)
    if (found !== undefined) return { outcome: 'unsupported', found }
    takeFramesOfSameStream(walk)
  }
  if (walk.frameCount === 0) {
    const found = walk.infoFrames === 0 ? 'no MPEG audio frames' : 'an MP3 header without audio frames'
    return { outcome: 'unsupported', found }
  }
  const parts = partsOf(walk, walk.samples)
  return {
    outcome: 'mp3',
    durationMs: durationMsOf(parts),
    parts,
    frameCount: walk.frameCount,
    unrecognisedBytes: walk.unrecognisedBytes,
    discontinuities: walk.discontinuities,
    decodable: {
      offset: walk.decodableOffset,
      parts: partsOf(walk, walk.decodableSamples),
      otherBytes: bytes.length - walk.decodableOffset - walk.decodableBytes,
    },
  }
}
