import { byteAt } from './mpeg-header.ts'

/** A tag is longer than the file, so its end is unknown. */
export const EXCEEDS_FILE = -1

/** There is no tag at this offset. */
export const NO_TAG = 0

const ID3V1_BYTES = 128
const ID3V1_EXTENDED_BYTES = 227
const ID3V2_HEADER_BYTES = 10
const APE_HEADER_BYTES = 32

// An APE tag without a header is walked item by item, a Lyrics3 tag field by field. Real ones have a few dozen with
// keys of ten letters. The bounds make the work at each offset constant, so a hostile file takes linear time.
const MAXIMUM_APE_ITEMS = 200
const MAXIMUM_APE_KEY_BYTES = 4_096
const MAXIMUM_LYRICS3_FIELDS = 100

// Lyrics3 v1 limits the text to 5,100 bytes, to which both marks are added.
const MAXIMUM_LYRICS3V1_BYTES = 5_100 + 'LYRICSBEGIN'.length + 'LYRICSEND'.length

function hasText(bytes: Uint8Array, offset: number, text: string, end: number): boolean {
  if (offset < 0 || offset + text.length > end) return false
  for (let index = 0; index < text.length; index++) {
    if (byteAt(bytes, offset + index) !== text.charCodeAt(index)) return false
  }
  return true
}

function littleEndian32(bytes: Uint8Array, offset: number): number {
  const high = byteAt(bytes, offset + 3) * 0x1000000
  return high + ((byteAt(bytes, offset + 2) << 16) | (byteAt(bytes, offset + 1) << 8) | byteAt(bytes, offset))
}

/** Parses a number of `digits` ASCII digits. Returns -1 for anything else. */
function decimalAt(bytes: Uint8Array, offset: number, digits: number, end: number): number {
  if (offset < 0 || offset + digits > end) return -1
  let value = 0
  for (let index = offset; index < offset + digits; index++) {
    const digit = byteAt(bytes, index) - 0x30
    if (digit < 0 || digit > 9) return -1
    value = value * 10 + digit
  }
  return value
}

/**
 * Returns the length of the tag that an ID3v2 header (or footer) describes, both included, or -1 when it is invalid.
 */
function id3v2Bytes(bytes: Uint8Array, offset: number): number {
  if (byteAt(bytes, offset + 3) === 0xff || byteAt(bytes, offset + 4) === 0xff) return -1
  let size = 0
  for (let index = offset + 6; index < offset + ID3V2_HEADER_BYTES; index++) {
    const seven = byteAt(bytes, index)
    // The size is "syncsafe": four times seven bits.
    if (seven > 0x7f) return -1
    size = size * 128 + seven
  }
  const hasFooter = (byteAt(bytes, offset + 5) & 0x10) !== 0
  return ID3V2_HEADER_BYTES + size + (hasFooter ? ID3V2_HEADER_BYTES : 0)
}

function apeVersionIsKnown(bytes: Uint8Array, offset: number): boolean {
  const version = littleEndian32(bytes, offset + 8)
  return version === 1000 || version === 2000
}

/** Returns whether there is an APE header, rather than the footer of a preceding tag: bit 29 of the flags. */
function isApeHeaderAt(bytes: Uint8Array, offset: number, end: number): boolean {
  return hasText(bytes, offset, 'APETAGEX', end) && (byteAt(bytes, offset + 23) & 0x20) !== 0
}

function apeTagWithHeaderBytes(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + APE_HEADER_BYTES > end || !apeVersionIsKnown(bytes, offset)) return NO_TAG
  const length = APE_HEADER_BYTES + littleEndian32(bytes, offset + 12)
  const footer = offset + length - APE_HEADER_BYTES
  return footer > offset && hasText(bytes, footer, 'APETAGEX', end) && footer + APE_HEADER_BYTES <= end
    ? length
    : NO_TAG
}

function isApeKeyByte(value: number): boolean {
  return value >= 0x20 && value <= 0x7e
}

/**
 * Returns the length of an APE tag without a header: items of size, flags, key, zero and value, and a footer with their
 * total size.
 */
function apeTagWithoutHeaderBytes(bytes: Uint8Array, offset: number, end: number): number {
  let item = offset
  let keyBytes = 0
  for (let count = 0; count < MAXIMUM_APE_ITEMS && item + APE_HEADER_BYTES <= end; count++) {
    if (hasText(bytes, item, 'APETAGEX', end)) {
      const length = item + APE_HEADER_BYTES - offset
      return count > 0 && littleEndian32(bytes, item + 12) === length ? length : NO_TAG
    }
    let key = item + 8
    while (key < end && key - item - 8 <= 255 && isApeKeyByte(byteAt(bytes, key))) key++
    if (key >= end || key - item - 8 < 2 || byteAt(bytes, key) !== 0) return NO_TAG
    keyBytes += key - item - 8
    if (keyBytes > MAXIMUM_APE_KEY_BYTES) return NO_TAG
    item = key + 1 + littleEndian32(bytes, item)
  }
  return NO_TAG
}

function lyrics3Bytes(bytes: Uint8Array, offset: number, end: number): number {
  let field = offset + 'LYRICSBEGIN'.length
  // Version 2: fields of a three-letter name and a five-digit size, then the six-digit size of all of them.
  for (let count = 0; count < MAXIMUM_LYRICS3_FIELDS; count++) {
    if (hasText(bytes, field + 6, 'LYRICS200', end)) {
      const stated = decimalAt(bytes, field, 6, end)
      if (stated === field - offset) return field + 6 + 'LYRICS200'.length - offset
    }
    const size = decimalAt(bytes, field + 3, 5, end)
    if (size < 0) break
    field += 8 + size
  }
  const last = Math.min(end, offset + MAXIMUM_LYRICS3V1_BYTES)
  for (let index = offset + 'LYRICSBEGIN'.length; index < last; index++) {
    if (hasText(bytes, index, 'LYRICSEND', last)) return index + 'LYRICSEND'.length - offset
  }
  return NO_TAG
}

/**
 * Returns the length in bytes of the tag at `offset` (ID3v1, ID3v2, APEv1 or APEv2, Lyrics3 v1 or v2), `NO_TAG`, or
 * `EXCEEDS_FILE` for an ID3v2 tag longer than the file. Follows the structure, without searching for a mark.
 * Sources: id3.org ID3v2.4.0 section 3, ID3v1, Lyrics3 v1 and v2; Hydrogenaudio "APEv2 specification".
 */
export function tagBytesAt(bytes: Uint8Array, offset: number, end: number): number {
  if (end - offset < ID3V2_HEADER_BYTES) return NO_TAG
  if (hasText(bytes, offset, 'ID3', end)) {
    const length = id3v2Bytes(bytes, offset)
    if (length < 0) return NO_TAG
    return offset + length > bytes.length ? EXCEEDS_FILE : length
  }
  if (hasText(bytes, offset, 'TAG+', end) && hasText(bytes, offset + ID3V1_EXTENDED_BYTES, 'TAG', end)) {
    return ID3V1_EXTENDED_BYTES
  }
  if (hasText(bytes, offset, 'TAG', end)) return end - offset >= ID3V1_BYTES ? ID3V1_BYTES : NO_TAG
  if (hasText(bytes, offset, 'APETAGEX', end)) return apeTagWithHeaderBytes(bytes, offset, end)
  if (hasText(bytes, offset, 'LYRICSBEGIN', end)) return lyrics3Bytes(bytes, offset, end)
  return apeTagWithoutHeaderBytes(bytes, offset, end)
}

function tagStartBefore(bytes: Uint8Array, end: number): number {
  if (hasText(bytes, end - ID3V1_BYTES, 'TAG', end)) {
    const extended = end - ID3V1_BYTES - ID3V1_EXTENDED_BYTES
    return hasText(bytes, extended, 'TAG+', end) ? extended : end - ID3V1_BYTES
  }
  if (hasText(bytes, end - APE_HEADER_BYTES, 'APETAGEX', end) && apeVersionIsKnown(bytes, end - APE_HEADER_BYTES)) {
    const start = end - littleEndian32(bytes, end - APE_HEADER_BYTES + 12)
    if (start < 0 || start > end - APE_HEADER_BYTES) return end
    return isApeHeaderAt(bytes, start - APE_HEADER_BYTES, end) ? start - APE_HEADER_BYTES : start
  }
  if (hasText(bytes, end - 9, 'LYRICS200', end)) {
    const start = end - 15 - decimalAt(bytes, end - 15, 6, end)
    return start < end - 15 && hasText(bytes, start, 'LYRICSBEGIN', end) ? start : end
  }
  if (hasText(bytes, end - 9, 'LYRICSEND', end)) {
    const first = Math.max(0, end - MAXIMUM_LYRICS3V1_BYTES)
    for (let start = end - 20; start >= first; start--) if (hasText(bytes, start, 'LYRICSBEGIN', end)) return start
  }
  if (hasText(bytes, end - ID3V2_HEADER_BYTES, '3DI', end)) {
    const start = end - id3v2Bytes(bytes, end - ID3V2_HEADER_BYTES)
    return start < end - ID3V2_HEADER_BYTES && hasText(bytes, start, 'ID3', end) ? start : end
  }
  return end
}

/**
 * Returns the offset of the trailing tags (ID3v1, APE, Lyrics3 and ID3v2.4 with a footer, in any order and number), or
 * the file's length when there are none.
 */
export function startOfTrailingTags(bytes: Uint8Array): number {
  let end = bytes.length
  for (;;) {
    const start = tagStartBefore(bytes, end)
    if (start >= end) return end
    end = start
  }
}
