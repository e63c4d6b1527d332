/** Text of an ID3v2 USLT frame with its ISO 639-2 language (`eng`). */
export interface Lyrics {
  readonly language: string
  readonly text: string
}

/**
 * Reads the first unsynchronized-lyrics frame of an ID3v2.3 or 2.4 tag; undefined when there is none or the tag is
 * damaged. Source: id3.org, ID3v2.3.0 section 4.9 and ID3v2.4.0-frames section 4.8.
 */
export function readLyrics(file: Uint8Array): Lyrics | undefined {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  const version = bytes[3]
  if (bytes.toString('latin1', 0, 3) !== 'ID3' || (version !== 3 && version !== 4) || bytes.length < 10)
    return undefined
  const flags = bytes[5] ?? 0
  const content = bytes.subarray(10, 10 + syncsafe(bytes, 6))
  // Version 2.3 escapes false frame syncs in the whole tag, version 2.4 in each flagged frame.
  const tag = version === 3 && (flags & 0x80) !== 0 ? resynchronized(content) : content
  let offset = (flags & 0x40) === 0 ? 0 : version === 3 ? 4 + readLength(tag, 0, 3) : readLength(tag, 0, 4)
  while (offset + 10 <= tag.length && tag[offset] !== 0) {
    const length = readLength(tag, offset + 4, version)
    const frame = tag.subarray(offset + 10, offset + 10 + length)
    if (tag.toString('latin1', offset, offset + 4) === 'USLT') {
      const isEscaped = version === 4 && ((tag[offset + 9] ?? 0) & 0x02) !== 0
      return lyricsOf(isEscaped ? resynchronized(frame) : frame)
    }
    offset += 10 + length
  }
  return undefined
}

/** Reads the frame: encoding byte, three letters of language, a terminated description, and the text. */
function lyricsOf(frame: Buffer): Lyrics | undefined {
  const encoding = frame[0]
  if (frame.length < 5 || encoding === undefined || encoding > 3) return undefined
  const start = afterDescription(frame, encoding === 1 || encoding === 2 ? 2 : 1)
  const text = decode(frame.subarray(start), encoding).replaceAll('\0', '').trim()
  return text === '' ? undefined : { language: frame.toString('latin1', 1, 4).toLowerCase(), text }
}

/** Returns the offset after the description's terminator, which has two bytes in UTF-16. */
function afterDescription(frame: Buffer, characterBytes: 1 | 2): number {
  for (let offset = 4; offset + characterBytes <= frame.length; offset += characterBytes) {
    if (frame.subarray(offset, offset + characterBytes).every((byte) => byte === 0)) return offset + characterBytes
  }
  return frame.length
}

function decode(bytes: Buffer, encoding: number): string {
  if (encoding === 0) return bytes.toString('latin1')
  if (encoding === 3) return bytes.toString('utf8')
  const isBigEndian = encoding === 2 || (bytes[0] === 0xfe && bytes[1] === 0xff)
  return new TextDecoder(isBigEndian ? 'utf-16be' : 'utf-16le').decode(bytes)
}

function resynchronized(bytes: Buffer): Buffer {
  return Buffer.from(bytes.filter((byte, index) => byte !== 0 || bytes[index - 1] !== 0xff))
}

function readLength(bytes: Buffer, offset: number, version: 3 | 4): number {
  if (offset + 4 > bytes.length) return 0
  return version === 4 ? syncsafe(bytes, offset) : bytes.readUInt32BE(offset)
}

function syncsafe(bytes: Buffer, offset: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(offset, offset + 4)
  return ((a & 0x7f) << 21) | ((b & 0x7f) << 14) | ((c & 0x7f) << 7) | (d & 0x7f)
}
