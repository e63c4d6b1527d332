import { byteAt, hasCrcAt, sideInformationBytesAt } from './mpeg-header.ts'

const headerBytes = 4
const crcBytes = 2
const letterI = 0x49
const letterV = 0x56
const letterX = 0x58

// Fraunhofer's encoders put it there whatever the version and the channels.
const vbriOffset = 36

function hasText(bytes: Uint8Array, offset: number, text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    if (byteAt(bytes, offset + index) !== text.charCodeAt(index)) return false
  }
  return true
}

function hasXingAt(bytes: Uint8Array, offset: number): boolean {
  const first = byteAt(bytes, offset)
  if (first === letterX) return hasText(bytes, offset, 'Xing')
  return first === letterI && hasText(bytes, offset, 'Info')
}

/**
 * Whether the layer III frame at `offset` is a Xing, Info or VBRI frame: a frame that carries an index for players where
 * audio would be, and that players therefore do not play. Its claims (frames, bytes, delays) are not read at all.
 */
export function isInfoFrameAt(bytes: Uint8Array, offset: number, lengthBytes: number): boolean {
  const afterSideInformation = headerBytes + sideInformationBytesAt(bytes, offset)
  if (lengthBytes < afterSideInformation + crcBytes + 4) return false
  if (hasXingAt(bytes, offset + afterSideInformation)) return true
  // Writers disagree whether the mark of a frame with a CRC stands after the CRC or where it would be without.
  if (hasCrcAt(bytes, offset) && hasXingAt(bytes, offset + afterSideInformation + crcBytes)) return true
  if (lengthBytes < vbriOffset + 4 || byteAt(bytes, offset + vbriOffset) !== letterV) return false
  return hasText(bytes, offset + vbriOffset, 'VBRI')
}

/** Whether the side information is all zero, so that a decoder which plays the frame plays silence. */
export function isSilentFrameAt(bytes: Uint8Array, offset: number): boolean {
  const start = offset + headerBytes + (hasCrcAt(bytes, offset) ? crcBytes : 0)
  const end = start + sideInformationBytesAt(bytes, offset)
  for (let index = start; index < end; index++) if (byteAt(bytes, index) !== 0) return false
  return true
}
