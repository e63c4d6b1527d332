import { byteAt, hasCrcAt, sideInformationBytesAt } from '../../packages/mp3/mpeg-header.ts'
import type { FrameTable } from './frame-table.ts'
import { silentFrameLike } from './silent-frames.ts'

const HEADER_BYTES = 4
const CRC_BYTES = 2
const MPEG1 = 3

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
    const data = bytes.subarray(dataOffset(bytes, offsets[before] as number), offsets[before + 1])
    const taken = data.subarray(Math.max(0, data.length - (end - leadIn.length + borrowed)))
    end -= taken.length
    leadIn.set(taken, end)
  }
  return leadIn
}

/** Returns how many bytes of the frames before it the frame at an offset uses, which its side information begins with. */
function borrowedBytes(bytes: Uint8Array, offset: number): number {
  const start = offset + HEADER_BYTES + (hasCrcAt(bytes, offset) ? CRC_BYTES : 0)
  const isMpeg1 = ((byteAt(bytes, offset + 1) >> 3) & 3) === MPEG1
  return isMpeg1 ? (byteAt(bytes, start) << 1) | (byteAt(bytes, start + 1) >> 7) : byteAt(bytes, start)
}

function dataOffset(bytes: Uint8Array, offset: number): number {
  return offset + HEADER_BYTES + (hasCrcAt(bytes, offset) ? CRC_BYTES : 0) + sideInformationBytesAt(bytes, offset)
}
