import { byteAt, frameLengthAt } from '#mp3/mpeg-header.ts'
import type { AudioPart, Mp3Walk } from '#mp3/walk-frames.ts'

/** The input of the decoder, and the length that is expected of its output. */
export interface DecodePlan {
  /** Two silent frames that precede the frames of the upload. */
  readonly primer: Uint8Array
  /** The first byte of the upload that is decoded. */
  readonly offset: number
  /** Whether it is one stream of one rate with nothing behind it, as encoders write: no byte of it can be other audio. */
  readonly isPlain: boolean
  /** Rate of the output in Hz: that of the longest part, so that a file with a single rate is not resampled. */
  readonly sampleRate: number
  /** Samples of the primer at `sampleRate`. */
  readonly primerSamples: number
  /** Samples at `sampleRate` that the frame walk predicts, including the primer. */
  readonly expectedSamples: number
  /** Bounds within which the decoder agrees with the frame walk. */
  readonly minimumSamples: number
  readonly maximumSamples: number
}

// On bytes that are not frames, a decoder searches for the next sync. In random data it finds a false one about every
// 5,600 bytes (2^-11 for the sync times 0.37 for valid version, layer, bitrate and rate), 35 ms long on average. Three
// times as many allow for cover art between joined files, and let a forger hide at most 15 ms in each KiB uploaded.
const BYTES_PER_FALSE_FRAME = 2_048
const FALSE_FRAME_SECONDS = 0.035

// Measured over every pair of the nine rates, with and without tags between: 4.0 for ffmpeg 4.1 and 5.1.
const FRAMES_LOST_PER_DISCONTINUITY = 4

// Discontinuities may add or remove this much in total, plus a share of the whole. Additions mostly cancel out in an
// honest file; their bound keeps a forger from hiding as much audio as is counted by making a discontinuity after every
// frame. Losses are a tenth in joined one-second clips; their bound rejects a file of which almost nothing decodes.
const DISCONTINUITY_ALLOWANCE_SECONDS = 1
const MAXIMUM_ADDED_SHARE = 0.02
const MAXIMUM_LOST_SHARE = 0.25

// However many bytes are no frames, half of the upload must decode: the bounds above would take 2 s and 25 MB of tags for
// confirmed when nothing of it does.
const MINIMUM_DECODED_SHARE = 0.5

const PRIMER_FRAMES = 2

function secondsOf(parts: readonly AudioPart[]): number {
  return parts.reduce((seconds, part) => seconds + part.samples / part.sampleRate, 0)
}

function samplesPerFrameAt(sampleRate: number): number {
  return sampleRate >= 32_000 ? 1152 : 576
}

/**
 * Returns two silent frames with the header of the frame at `offset`. ffmpeg looks for a Xing header in the first frame
 * and needs two frames to recognize a stream. After a primer, no Xing header of the upload influences it, and an upload
 * of a single frame decodes.
 */
function primerFor(audio: Uint8Array, offset: number): Uint8Array {
  // A copy: `slice` of a Buffer would be a view into the upload.
  const header = Uint8Array.from(audio.subarray(offset, offset + 4))
  // Protection bit set: no CRC.
  header[1] = byteAt(header, 1) | 1
  const length = frameLengthAt(header, 0, 4)
  const primer = new Uint8Array(PRIMER_FRAMES * length)
  for (let frame = 0; frame < PRIMER_FRAMES; frame++) primer.set(header, frame * length)
  return primer
}

/**
 * Computes what an independent decoder must find in an upload to confirm the frame walk. Pure.
 *
 * The output may be longer by one frame, by another for each discontinuity up to a bound (ffmpeg decodes the first
 * frame of a new rate at the old one), and by false syncs in proportion to the bytes that are not frames. It may be
 * shorter by four frames for each discontinuity up to a bound, which ffmpeg drops after a tag between joined files
 * until it recognizes the stream again, and by as much as false syncs, but by no more than half of the upload. The
 * encoder delay needs no allowance, since ffmpeg is configured not to trim it.
 */
export function planDecode(audio: Uint8Array, walk: Mp3Walk): DecodePlan {
  const { parts } = walk
  const { offset, otherBytes } = walk.decodable
  const longest = parts.reduce((a, b) => (b.samples / b.sampleRate > a.samples / a.sampleRate ? b : a))
  const primer = primerFor(audio, offset)
  const primerRate = (walk.parts[0] ?? longest).sampleRate
  const primerSeconds = (PRIMER_FRAMES * samplesPerFrameAt(primerRate)) / primerRate
  const frameSeconds = Math.max(...walk.parts.map(({ sampleRate }) => samplesPerFrameAt(sampleRate) / sampleRate))
  const falseFrames = Math.ceil(otherBytes / BYTES_PER_FALSE_FRAME)
  const uploadSeconds = secondsOf(parts)
  const expectedSeconds = uploadSeconds + primerSeconds
  const falseSeconds = FALSE_FRAME_SECONDS * falseFrames
  const discontinuitySeconds = frameSeconds * walk.discontinuities
  const addedSeconds = Math.min(
    discontinuitySeconds,
    DISCONTINUITY_ALLOWANCE_SECONDS + MAXIMUM_ADDED_SHARE * expectedSeconds,
  )
  const lostSeconds = Math.min(
    FRAMES_LOST_PER_DISCONTINUITY * discontinuitySeconds,
    DISCONTINUITY_ALLOWANCE_SECONDS + MAXIMUM_LOST_SHARE * expectedSeconds,
  )
  const moreSeconds = frameSeconds + addedSeconds + falseSeconds
  const lessSeconds = Math.min(frameSeconds + lostSeconds + falseSeconds, MINIMUM_DECODED_SHARE * uploadSeconds)
  return {
    primer,
    offset,
    isPlain: parts.length === 1 && walk.discontinuities === 0 && otherBytes === 0,
    sampleRate: longest.sampleRate,
    primerSamples: Math.round(primerSeconds * longest.sampleRate),
    expectedSamples: Math.round(expectedSeconds * longest.sampleRate),
    minimumSamples: Math.ceil((expectedSeconds - lessSeconds) * longest.sampleRate),
    maximumSamples: Math.ceil((expectedSeconds + moreSeconds) * longest.sampleRate),
  }
}
