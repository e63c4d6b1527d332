/** The image types that callers may send. */
export type ImageMediaType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif'

export interface PixelSize {
  readonly width: number
  readonly height: number
}

/** Returns the type of the image from its first bytes; `null` for anything else. */
export function imageMediaType(bytes: Uint8Array): ImageMediaType | null {
  const head = Buffer.from(bytes.subarray(0, 12)).toString('latin1')
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (head.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (head.startsWith('RIFF') && head.slice(8) === 'WEBP') return 'image/webp'
  if (head.startsWith('GIF87a') || head.startsWith('GIF89a')) return 'image/gif'
  return null
}

/**
 * Reads width and height where the header is definitive: PNG and JPEG. Returns `null` otherwise: GIF and WebP declare a
 * canvas and then frames, which may differ.
 */
export function pixelSize(bytes: Uint8Array): PixelSize | null {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const type = imageMediaType(bytes)
  const size = type === 'image/png' ? pngSize(buffer) : type === 'image/jpeg' ? jpegSize(buffer) : null
  return size && size.width > 0 && size.height > 0 ? size : null
}

/** Reads the declared width and height; of a WebP, those of its canvas. `null` for GIF and for unreadable headers. */
export function imageSize(bytes: Uint8Array): PixelSize | null {
  if (imageMediaType(bytes) !== 'image/webp') return pixelSize(bytes)
  return webpCanvas(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
}

/**
 * Reads the first chunk of a WebP: lossy, lossless or extended (developers.google.com/speed/webp/docs/riff_container;
 * RFC 6386, section 9.1, and the lossless bitstream, section 3).
 */
function webpCanvas(buffer: Buffer): PixelSize | null {
  if (buffer.length < 30) return null
  switch (buffer.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: buffer.readUInt16LE(26) & 0x3fff, height: buffer.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = buffer.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: buffer.readUIntLE(24, 3) + 1, height: buffer.readUIntLE(27, 3) + 1 }
    default:
      return null
  }
}

/** Reads the IHDR chunk, the first one of every PNG (PNG specification, 11.2.1). */
function pngSize(buffer: Buffer): PixelSize | null {
  if (buffer.length < 24 || buffer.toString('latin1', 12, 16) !== 'IHDR') return null
  return { width: buffer.readUInt32BE(16), height: buffer.readUInt32BE(20) }
}

/** Markers C0 to CF start a frame, except these three, which are tables (ITU T.81, table B.1). */
const TABLE_MARKERS = new Set([0xc4, 0xc8, 0xcc])

/** Walks the marker segments to the frame header, so that a thumbnail inside a segment never counts as the image. */
function jpegSize(buffer: Buffer): PixelSize | null {
  for (let at = 2; at + 9 <= buffer.length && buffer[at] === 0xff;) {
    const marker = buffer[at + 1] ?? 0
    if (marker === 0xff) {
      at += 1
      continue
    }
    if (marker >= 0xc0 && marker <= 0xcf && !TABLE_MARKERS.has(marker))
      return { height: buffer.readUInt16BE(at + 5), width: buffer.readUInt16BE(at + 7) }
    // The scan has started, or a marker without a length is in the place of a table: there is no frame header.
    if (marker < 0xc0 || (marker >= 0xd0 && marker <= 0xda)) return null
    at += 2 + buffer.readUInt16BE(at + 2)
  }
  return null
}
