import { byteAt } from './mpeg-header.ts'

/** A tag runs past the end of the file, so what is behind it cannot be told. */
export const runsPastTheFile = -1

/** No tag stands here. */
export const noTag = 0

const id3v1Bytes = 128
const id3v1ExtendedBytes = 227
const id3v2HeaderBytes = 10
const apeHeaderBytes = 32

// An APE tag without a header is walked item by item, a Lyrics3 tag field by field. Real ones hold a few dozen with keys
// of ten letters; the bounds keep the work at each place constant, so that a hostile file costs linear time.
const maximumApeItems = 200
const maximumApeKeyBytes = 4_096
const maximumLyrics3Fields = 100

// The Lyrics3 v1 page bounds the text at 5,100 bytes; with both marks that is the farthest its end can be.
const maximumLyrics3v1Bytes = 5_100 + 'LYRICSBEGIN'.length + 'LYRICSEND'.length

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

/** Decimal number of `digits` ASCII digits, or -1. */
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

/** Bytes of the tag that the ten bytes of an ID3v2 header (or footer) describe, both included; -1 when they do not. */
function id3v2Bytes(bytes: Uint8Array, offset: number): number {
  if (byteAt(bytes, offset + 3) === 0xff || byteAt(bytes, offset + 4) === 0xff) return -1
  let size = 0
  for (let index = offset + 6; index < offset + id3v2HeaderBytes; index++) {
    const seven = byteAt(bytes, index)
    // The size is "syncsafe": four times seven bits.
    if (seven > 0x7f) return -1
    size = size * 128 + seven
  }
  const hasFooter = (byteAt(bytes, offset + 5) & 0x10) !== 0
  return id3v2HeaderBytes + size + (hasFooter ? id3v2HeaderBytes : 0)
}

function apeVersionIsKnown(bytes: Uint8Array, offset: number): boolean {
  const version = littleEndian32(bytes, offset + 8)
  return version === 1000 || version === 2000
}

/** Whether an APE header, rather than the footer of a tag before, stands there: bit 29 of the flags tells. */
function isApeHeaderAt(bytes: Uint8Array, offset: number, end: number): boolean {
  return hasText(bytes, offset, 'APETAGEX', end) && (byteAt(bytes, offset + 23) & 0x20) !== 0
}

function apeTagWithHeaderBytes(bytes: Uint8Array, offset: number, end: number): number {
  if (offset + apeHeaderBytes > end || !apeVersionIsKnown(bytes, offset)) return noTag
  const length = apeHeaderBytes + littleEndian32(bytes, offset + 12)
  const footer = offset + length - apeHeaderBytes
  return footer > offset && hasText(bytes, footer, 'APETAGEX', end) && footer + apeHeaderBytes <= end ? length : noTag
}

function isApeKeyByte(value: number): boolean {
  return value >= 0x20 && value <= 0x7e
}

/** An APE tag that begins with its first item: size, flags, key, zero, value, and so on to a footer that states the sum. */
function apeTagWithoutHeaderBytes(bytes: Uint8Array, offset: number, end: number): number {
  let item = offset
  let keyBytes = 0
  for (let count = 0; count < maximumApeItems && item + apeHeaderBytes <= end; count++) {
    if (hasText(bytes, item, 'APETAGEX', end)) {
      const length = item + apeHeaderBytes - offset
      return count > 0 && littleEndian32(bytes, item + 12) === length ? length : noTag
    }
    let key = item + 8
    while (key < end && key - item - 8 <= 255 && isApeKeyByte(byteAt(bytes, key))) key++
    if (key >= end || key - item - 8 < 2 || byteAt(bytes, key) !== 0) return noTag
    keyBytes += key - item - 8
    if (keyBytes > maximumApeKeyBytes) return noTag
    item = key + 1 + littleEndian32(bytes, item)
  }
  return noTag
}

function lyrics3Bytes(bytes: Uint8Array, offset: number, end: number): number {
  let field = offset + 'LYRICSBEGIN'.length
  // Version 2: fields of a three-letter name and a five-digit size, then the six-digit size of all of them.
  for (let count = 0; count < maximumLyrics3Fields; count++) {
    if (hasText(bytes, field + 6, 'LYRICS200', end)) {
      const stated = decimalAt(bytes, field, 6, end)
      if (stated === field - offset) return field + 6 + 'LYRICS200'.length - offset
    }
    const size = decimalAt(bytes, field + 3, 5, end)
    if (size < 0) break
    field += 8 + size
  }
  const last = Math.min(end, offset + maximumLyrics3v1Bytes)
  for (let index = offset + 'LYRICSBEGIN'.length; index < last; index++) {
    if (hasText(bytes, index, 'LYRICSEND', last)) return index + 'LYRICSEND'.length - offset
  }
  return noTag
}

/**
 * Length in bytes of the tag that begins at `offset` (ID3v1, ID3v2, APEv1 or APEv2, Lyrics3 v1 or v2), or `noTag`, or
 * `runsPastTheFile` for an ID3v2 tag longer than the file. Found by structure only, never by searching for a mark.
 * Sources: id3.org ID3v2.4.0 section 3, ID3v1, Lyrics3 v1 and v2; Hydrogenaudio "APEv2 specification".
 */
export function tagBytesAt(bytes: Uint8Array, offset: number, end: number): number {
  if (end - offset < id3v2HeaderBytes) return noTag
  if (hasText(bytes, offset, 'ID3', end)) {
    const length = id3v2Bytes(bytes, offset)
    if (length < 0) return noTag
    return offset + length > bytes.length ? runsPastTheFile : length
  }
  if (hasText(bytes, offset, 'TAG+', end) && hasText(bytes, offset + id3v1ExtendedBytes, 'TAG', end)) {
    return id3v1ExtendedBytes
  }
  if (hasText(bytes, offset, 'TAG', end)) return end - offset >= id3v1Bytes ? id3v1Bytes : noTag
  if (hasText(bytes, offset, 'APETAGEX', end)) return apeTagWithHeaderBytes(bytes, offset, end)
  if (hasText(bytes, offset, 'LYRICSBEGIN', end)) return lyrics3Bytes(bytes, offset, end)
  return apeTagWithoutHeaderBytes(bytes, offset, end)
}

function tagStartBefore(bytes: Uint8Array, end: number): number {
  if (hasText(bytes, end - id3v1Bytes, 'TAG', end)) {
    const extended = end - id3v1Bytes - id3v1ExtendedBytes
    return hasText(bytes, extended, 'TAG+', end) ? extended : end - id3v1Bytes
  }
  if (hasText(bytes, end - apeHeaderBytes, 'APETAGEX', end) && apeVersionIsKnown(bytes, end - apeHeaderBytes)) {
    const start = end - littleEndian32(bytes, end - apeHeaderBytes + 12)
    if (start < 0 || start > end - apeHeaderBytes) return end
    return isApeHeaderAt(bytes, start - apeHeaderBytes, end) ? start - apeHeaderBytes : start
  }
  if (hasText(bytes, end - 9, 'LYRICS200', end)) {
    const start = end - 15 - decimalAt(bytes, end - 15, 6, end)
    return start < end - 15 && hasText(bytes, start, 'LYRICSBEGIN', end) ? start : end
  }
  if (hasText(bytes, end - 9, 'LYRICSEND', end)) {
    const first = Math.max(0, end - maximumLyrics3v1Bytes)
    for (let start = end - 20; start >= first; start--) if (hasText(bytes, start, 'LYRICSBEGIN', end)) return start
  }
  if (hasText(bytes, end - id3v2HeaderBytes, '3DI', end)) {
    const start = end - id3v2Bytes(bytes, end - id3v2HeaderBytes)
    return start < end - id3v2HeaderBytes && hasText(bytes, start, 'ID3', end) ? start : end
  }
  return end
}

/**
 * Offset at which the tags at the back of the file begin (ID3v1, APE, Lyrics3 and ID3v2.4 with a footer, in any order
 * and number), or the file's length.
 */
export function startOfTrailingTags(bytes: Uint8Array): number {
  let end = bytes.length
  for (;;) {
    const start = tagStartBefore(bytes, end)
    if (start >= end) return end
    end = start
  }
}
