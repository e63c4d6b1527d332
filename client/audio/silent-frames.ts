import { byteAt, frameLengthAt, hasCrcAt, sideInformationBytesAt } from '../../packages/mp3/mpeg-header.ts'
import type { FrameTable } from './frame-table.ts'

const HEADER_BYTES = 4
const CRC_BYTES = 2
const MPEG1 = 3
const HIGHEST_BIT_RATE_INDEX = 14

/**
 * Returns a frame of silence for the stream that a header belongs to, at the lowest bit rate that has room for its side
 * information and so many bytes after it. The side information is zero: decoders play silence, and take nothing from the
 * frames before it.
 */
export function silentFrameLike(header: Uint8Array, room = 0): Uint8Array {
  const silent = Uint8Array.from(header.subarray(0, HEADER_BYTES))
  // Without a CRC, which would have to be computed.
  silent[1] = (silent[1] as number) | 1
  for (let index = 1; index <= HIGHEST_BIT_RATE_INDEX; index++) {
    // Without padding.
    silent[2] = ((silent[2] as number) & 0x0c) | (index << 4)
    const length = frameLengthAt(silent, 0, HEADER_BYTES)
    if (length < HEADER_BYTES + sideInformationBytesAt(silent, 0) + room) continue
    const frame = new Uint8Array(length)
    frame.set(silent)
    return frame
  }
  throw new RangeError('not the header of an MP3 frame')
}

/** The largest lead-in frame: one of 160 kbit/s at 8 kHz. */
export const LONGEST_LEAD_IN_BYTES = 1440

/**
 * Returns the frame with which a part must begin so that its first frame can be decoded: an MP3 frame may use bytes of
 * the frames before it (the bit reservoir). The frame is silent and contains those bytes. Undefined if none are used.
 */
export function leadInFrame(table: FrameTable, frame: number): Uint8Array | undefined {
  const { bytes, offsets } = table
  const borrowed = borrowedBytes(bytes, offsets[frame] as number)
  if (borrowed === 0) return undefined
  const leadIn = silentFrameLike(bytes.subarray(offsets[frame]), borrowed)
  let end = leadIn.length
  for (let before = frame - 1; before >= 0 && end > leadIn.length - borrowed; before--) {
    const start = offsets[before] as number
    const data = bytes.subarray(
      sideInformationAt(bytes, start) + sideInformationBytesAt(bytes, start),
      offsets[before + 1],
    )
    const taken = data.subarray(Math.max(0, data.length - (end - leadIn.length + borrowed)))
    end -= taken.length
    leadIn.set(taken, end)
  }
  return leadIn
}

/**
 * Returns how many bytes of the frames before it the frame at an offset uses, which its side information begins with.
 */
function borrowedBytes(bytes: Uint8Array, offset: number): number {
  const start = sideInformationAt(bytes, offset)
  const isMpeg1 = ((byteAt(bytes, offset + 1) >> 3) & 3) === MPEG1
  return isMpeg1 ? (byteAt(bytes, start) << 1) | (byteAt(bytes, start + 1) >> 7) : byteAt(bytes, start)
}

function sideInformationAt(bytes: Uint8Array, offset: number): number {
  return offset + HEADER_BYTES + (hasCrcAt(bytes, offset) ? CRC_BYTES : 0)
}
