/** Properties of an image that the simulated models report. Sizes are in pixels. */
export interface SeenImage {
  readonly contentType: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'
  readonly width: number
  readonly height: number
}

/** Reads type and size from an image's header; undefined for bytes that are not an image of a known type. */
export function readImage(bytes: Uint8Array): SeenImage | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.length >= 24 && view.readUInt32BE(0) === 0x89_50_4e_47) {
    return seen('image/png', view.readUInt32BE(16), view.readUInt32BE(20))
  }
  if (view.length >= 10 && view.toString('latin1', 0, 4) === 'GIF8') {
    return seen('image/gif', view.readUInt16LE(6), view.readUInt16LE(8))
  }
  if (view.length >= 4 && view.readUInt16BE(0) === 0xff_d8) return readJpeg(view)
  if (view.length >= 30 && view.toString('latin1', 0, 4) === 'RIFF' && view.toString('latin1', 8, 12) === 'WEBP') {
    return readWebp(view)
  }
  return undefined
}

function seen(contentType: SeenImage['contentType'], width: number, height: number): SeenImage | undefined {
  return width > 0 && height > 0 ? { contentType, width, height } : undefined
}

/** Walks the segments to the frame header: SOF0 to SOF15 without DHT, JPG and DAC. */
function readJpeg(view: Buffer): SeenImage | undefined {
  let at = 2
  while (at + 9 <= view.length && view[at] === 0xff) {
    const marker = view[at + 1] ?? 0
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return seen('image/jpeg', view.readUInt16BE(at + 7), view.readUInt16BE(at + 5))
    }
    at += 2 + view.readUInt16BE(at + 2)
  }
  return undefined
}

function readWebp(view: Buffer): SeenImage | undefined {
  switch (view.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return seen('image/webp', view.readUInt16LE(26) & 0x3f_ff, view.readUInt16LE(28) & 0x3f_ff)
    case 'VP8L': {
      const bits = view.readUInt32LE(21)
      return seen('image/webp', (bits & 0x3f_ff) + 1, ((bits >>> 14) & 0x3f_ff) + 1)
    }
    case 'VP8X':
      return seen('image/webp', view.readUIntLE(24, 3) + 1, view.readUIntLE(27, 3) + 1)
    default:
      return undefined
  }
}
