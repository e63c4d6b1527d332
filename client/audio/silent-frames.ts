import { frameLengthAt, sideInformationBytesAt } from '../../packages/mp3/mpeg-header.ts'

const HEADER_BYTES = 4
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
