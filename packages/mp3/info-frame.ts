import { byteAt, hasCrcAt, sideInformationBytesAt } from './mpeg-header.ts'

const HEADER_BYTES = 4
const CRC_BYTES = 2
const LETTER_I = 0x49
const LETTER_V = 0x56
const LETTER_X = 0x58

// Fraunhofer's encoders use this offset for every version and channel count.
const VBRI_OFFSET = 36

function hasText(bytes: Uint8Array, offset: number, text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    if (byteAt(bytes, offset + index) !== text.charCodeAt(index)) return false
  }
  return true
}

function hasXingAt(bytes: Uint8Array, offset: number): boolean {
  const first = byteAt(bytes, offset)
  if (first === LETTER_X) return hasText(bytes, offset, 'Xing')
  return first === LETTER_I && hasText(bytes, offset, 'Info')
}

/**
 * Returns whether the layer III frame at `offset` is a Xing, Info or VBRI frame: it contains an index for players
 * instead of audio, so players do not play it as the first frame of a file. Its claims (frames, bytes, delays) are not read.
 */
export function isInfoFrameAt(bytes: Uint8Array, offset: number, lengthBytes: number): boolean {
  const afterSideInformation = HEADER_BYTES + sideInformationBytesAt(bytes, offset)
  if (lengthBytes < afterSideInformation + CRC_BYTES + 4) return false
  if (hasXingAt(bytes, offset + afterSideInformation)) return true
  // In a frame with a CRC, some encoders write the mark after the CRC and others where it would be without one.
  if (hasCrcAt(bytes, offset) && hasXingAt(bytes, offset + afterSideInformation + CRC_BYTES)) return true
  if (lengthBytes < VBRI_OFFSET + 4 || byteAt(bytes, offset + VBRI_OFFSET) !== LETTER_V) return false
  return hasText(bytes, offset + VBRI_OFFSET, 'VBRI')
}
