export interface Id3Tag {
  readonly title: string
  readonly artist: string
  /** ISO 639-2 code of the lyrics: `eng`. */
  readonly language: string
  readonly lyrics: string
}

/**
 * Returns an ID3v2.3 tag with title (TIT2), artist (TPE1) and lyrics (USLT, empty description), which precedes the audio.
 * Text is UTF-16 with a byte order mark, the only Unicode encoding in version 2.3.
 *
 * Source: id3.org, ID3v2.3.0 sections 3.1 to 3.3, 4.2 and 4.9.
 */
export function id3Tag({ title, artist, language, lyrics }: Id3Tag): Buffer {
  const frames = Buffer.concat([
    frame('TIT2', Buffer.concat([UNICODE, utf16(title)])),
    frame('TPE1', Buffer.concat([UNICODE, utf16(artist)])),
    frame('USLT', Buffer.concat([UNICODE, Buffer.from(language, 'latin1'), utf16(''), Buffer.alloc(2), utf16(lyrics)])),
  ])
  const size = Buffer.from([21, 14, 7, 0].map((shift) => (frames.length >> shift) & 0x7f))
  return Buffer.concat([Buffer.from('ID3\x03\x00\x00', 'latin1'), size, frames])
}

const UNICODE = Buffer.from([1])

function utf16(text: string): Buffer {
  return Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(text, 'utf16le')])
}

function frame(id: string, content: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([Buffer.from(id, 'latin1'), length, Buffer.alloc(2), content])
}
