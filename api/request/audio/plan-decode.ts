import { byteAt, frameLengthAt, freeFormat } from '#shared/audio/mpeg-header.ts'
import type { AudioPart, Mp3Walk } from '#shared/audio/walk-frames.ts'

/** What the decoder is to be fed and what it should make of it. */
export interface DecodePlan {
  /** Two silent frames that go in front of the upload's own. */
  readonly primer: Uint8Array
  /** First byte of the upload that is fed. */
  readonly offset: number
  /** Rate in Hz of the counted output: that of the longest part, so that a file of one rate is not resampled. */
  readonly sampleRate: number
  /** What the primer adds, at `sampleRate`. */
  readonly primerSamples: number
  /** Samples at `sampleRate` that the walk leads one to expect, the primer's included. */
  readonly expectedSamples: number
  /** Bounds between which the decoder's count agrees with the walk's. */
  readonly minimumSamples: number
  readonly maximumSamples: number
}

// A decoder that meets bytes which are not frames looks for the next sync, and finds a false one in random data about
// every 5,600 bytes (2^-11 for the sync times 0.37 for legal version, layer, bitrate and rate), 35 ms long on average.
// Three times that many covers cover art between joined files; what it lets a forger hide is 15 ms in each KiB uploaded.
const bytesPerFalseFrame = 2_048
const falseFrameSeconds = 0.035

// Measured over every pair of the nine rates, with and without tags between: 4.0 for ffmpeg 4.1 and 5.1.
const framesLostPerDiscontinuity = 4

// What discontinuities may add or take in all: this and a share of the whole. What they add mostly cancels out in an honest
// file, and must not let a forger who makes one after every frame hide as much audio as is counted. What they take is a
// tenth of joined one-second clips, and must not let a file pass of which next to nothing decodes.
const breakAllowanceSeconds = 1
const mostAddedShare = 0.02
const mostLostShare = 0.25

const primerFrames = 2

function secondsOf(parts: readonly AudioPart[]): number {
  return parts.reduce((seconds, part) => seconds + part.samples / part.sampleRate, 0)
}

function samplesPerFrameAt(sampleRate: number): number {
  return sampleRate >= 32_000 ? 1152 : 576
}

/**
 * Two silent frames with the header of the one at `offset`. ffmpeg looks for a Xing frame in the first frame it meets and
 * wants two frames before it believes in a stream: behind a primer no header of the upload's steers it, an upload of a
 * single frame decodes, and free format, which it cannot decode, fails as bytes that are no frames.
 */
function primerFor(audio: Uint8Array, offset: number): Uint8Array {
  // A copy: `slice` of a Buffer would be a view into the upload.
  const header = Uint8Array.from(audio.subarray(offset, offset + 4))
  // Protection bit set: no CRC.
  header[1] = byteAt(header, 1) | 1
  // Any bitrate in place of free format's zero.
  if (frameLengthAt(header, 0, 4) === freeFormat) header[2] = byteAt(header, 2) | 0x90
  const length = frameLengthAt(header, 0, 4)
  const primer = new Uint8Array(primerFrames * length)
  for (let frame = 0; frame < primerFrames; frame++) primer.set(header, frame * length)
  return primer
}

/**
 * Works out what an independent decoder must find in an upload for the walk to be believed.
 *
 * More than expected may be one frame, another for each discontinuity up to a bound (ffmpeg takes the first frame of a new
 * rate for one of the old), and false syncs in proportion to the bytes that are not frames. Less may be four frames for each
 * discontinuity, again up to a bound: that is what ffmpeg drops behind a tag between joined files before it trusts the stream again. The
 * encoder's delay needs no allowance, since ffmpeg is told not to trim it. Pure.
 */
export function planDecode(audio: Uint8Array, walk: Mp3Walk): DecodePlan {
  const { offset, parts, otherBytes } = walk.decodable
  // Only free format leaves nothing to decode; then the count must stay near the primer's.
  const counted = parts.length > 0 ? parts : walk.parts
  const longest = counted.reduce((a, b) => (b.samples / b.sampleRate > a.samples / a.sampleRate ? b : a))
  const primer = primerFor(audio, offset)
  const primerRate = (walk.parts[0] ?? longest).sampleRate
  const primerSeconds = (primerFrames * samplesPerFrameAt(primerRate)) / primerRate
  const frameSeconds = Math.max(...walk.parts.map(({ sampleRate }) => samplesPerFrameAt(sampleRate) / sampleRate))
  const falseFrames = Math.ceil(otherBytes / bytesPerFalseFrame)
  const expectedSeconds = secondsOf(parts) + primerSeconds
  const falseSeconds = falseFrameSeconds * falseFrames
  const breakSeconds = frameSeconds * walk.discontinuities
  const addedSeconds = Math.min(breakSeconds, breakAllowanceSeconds + mostAddedShare * expectedSeconds)
  const lostSeconds = Math.min(
    framesLostPerDiscontinuity * breakSeconds,
    breakAllowanceSeconds + mostLostShare * expectedSeconds,
  )
  const moreSeconds = frameSeconds + addedSeconds + falseSeconds
  const lessSeconds = frameSeconds + lostSeconds + falseSeconds
  return {
    primer,
    offset,
    sampleRate: longest.sampleRate,
    primerSamples: Math.round(primerSeconds * longest.sampleRate),
    expectedSamples: Math.round(expectedSeconds * longest.sampleRate),
    minimumSamples: Math.floor((expectedSeconds - lessSeconds) * longest.sampleRate),
    maximumSamples: Math.ceil((expectedSeconds + moreSeconds) * longest.sampleRate),
  }
}
