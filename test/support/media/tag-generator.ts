import { joinBytes } from './mp3-generator.ts'

/** Returns the ASCII bytes of a text. */
export function ascii(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0))
}

function littleEndian32(value: number): Uint8Array {
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, value, true)
  return bytes
}

/** Generates an ID3v1 tag of 128 bytes. */
export function generateId3v1(): Uint8Array {
  const tag = new Uint8Array(128)
  tag.set(ascii('TAGtitle'))
  return tag
}

/** Generates an ID3v2 tag around `body`; `claimedBytes` overrides the size that the tag states. */
export function generateId3v2(body: Uint8Array, options: { footer?: boolean; claimedBytes?: number } = {}): Uint8Array {
  const size = options.claimedBytes ?? body.length
  const rest = Uint8Array.of(
    options.footer ? 4 : 3,
    0,
    options.footer ? 0x10 : 0,
    (size >> 21) & 0x7f,
    (size >> 14) & 0x7f,
    (size >> 7) & 0x7f,
    size & 0x7f,
  )
  return joinBytes(ascii('ID3'), rest, body, options.footer ? joinBytes(ascii('3DI'), rest) : new Uint8Array())
}

/** Generates an APE tag of one item; version 1 has no header, version 2 has one by default. */
export function generateApe(version: 1 | 2, options: { value?: Uint8Array; header?: boolean } = {}): Uint8Array {
  const value = options.value ?? ascii('Somebody')
  const hasHeader = version === 2 && options.header !== false
  const item = joinBytes(littleEndian32(value.length), littleEndian32(0), ascii('Artist\0'), value)
  const edge = (isHeader: boolean) =>
    joinBytes(
      ascii('APETAGEX'),
      littleEndian32(version * 1000),
      littleEndian32(item.length + 32),
      littleEndian32(1),
      littleEndian32((hasHeader ? 0x80000000 : 0) + (isHeader ? 0x20000000 : 0)),
      new Uint8Array(8),
    )
  return hasHeader ? joinBytes(edge(true), item, edge(false)) : joinBytes(item, edge(false))
}

/** Generates a Lyrics3 tag with `text`. */
export function generateLyrics3(version: 1 | 2, text = '[00:01]la la la'): Uint8Array {
  if (version === 1) return ascii(`LYRICSBEGIN${text}LYRICSEND`)
  const begin = `LYRICSBEGININD0000210LYR${String(text.length).padStart(5, '0')}${text}`
  return ascii(`${begin}${String(begin.length).padStart(6, '0')}LYRICS200`)
}
