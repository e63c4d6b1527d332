import { isInfoFrameAt } from '../../packages/mp3/info-frame.ts'
import { byteAt, frameLengthAt, hasCrcAt, sideInformationBytesAt } from '../../packages/mp3/mpeg-header.ts'
import type { Mp3Walk } from '../../packages/mp3/walk-frames.ts'

/** What the header frame of an MP3 claims. */
export interface HeaderFrame {
  /** Frames of the whole file, without the header frame. */
  readonly frames: number | undefined
  /** Samples that decoders skip because the encoder and the decoder delay the sound by them. */
  readonly skippedSamples: number
}

const NOTHING_STATED: HeaderFrame = { frames: undefined, skippedSamples: 0 }
const LONGEST_FRAME_BYTES = 2881
const HAS_FRAMES = 1
/** Bytes of each field after the flags, by its flag: frames, bytes, table of contents, quality. */
const FIELD_BYTES = [4, 4, 100, 4]
/** From the name of the encoder to the three bytes with its delay and padding. */
const DELAY_OFFSET = 21
/** The delay of every decoder of layer III: that of its filter bank. */
const DECODER_DELAY = 529

/** Reads the Xing or Info frame before the first audio frame. Decoders skip a delay only if LAME or libav names itself. */
export function readHeaderFrame(bytes: Uint8Array, { decodable: { offset } }: Pick<Mp3Walk, 'decodable'>): HeaderFrame {
  const frame = infoFrameBefore(bytes, offset)
  if (frame === undefined) return NOTHING_STATED
  const mark = markAt(bytes, frame)
  if (mark === undefined) return NOTHING_STATED
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const flags = view.getUint32(mark + 4)
  const fields = FIELD_BYTES.reduce((sum, length, index) => sum + ((flags >> index) & 1) * length, 0)
  const encoder = mark + 8 + fields
  const hasDelay = encoder + DELAY_OFFSET + 3 <= offset && /^(LAME|Lav[cf])/.test(textAt(bytes, encoder, 4))
  const delay = hasDelay ? view.getUint16(encoder + DELAY_OFFSET) >> 4 : undefined
  return {
    frames: (flags & HAS_FRAMES) === 0 ? undefined : view.getUint32(mark + 8),
    skippedSamples: delay === undefined ? 0 : delay + DECODER_DELAY,
  }
}

function infoFrameBefore(bytes: Uint8Array, end: number): number | undefined {
  for (let at = end - 4; at >= Math.max(0, end - LONGEST_FRAME_BYTES); at--) {
    const length = frameLengthAt(bytes, at, end)
    if (length > 0 && at + length === end && isInfoFrameAt(bytes, at, length)) return at
  }
  return undefined
}

/** Returns the offset of the mark; undefined for VBRI, which has no delay that decoders skip. */
function markAt(bytes: Uint8Array, frame: number): number | undefined {
  const usual = frame + 4 + sideInformationBytesAt(bytes, frame)
  return [usual, usual + (hasCrcAt(bytes, frame) ? 2 : 0)].find((at) => /Xing|Info/.test(textAt(bytes, at, 4)))
}

function textAt(bytes: Uint8Array, offset: number, length: number): string {
  return String.fromCharCode(...Array.from({ length }, (_, index) => byteAt(bytes, offset + index)))
}
