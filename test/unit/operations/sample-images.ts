/** Returns the header of a PNG of this size; nothing after it is read. */
export function pngHead(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(33)
  bytes.write('\x89PNG\r\n\x1a\n', 0, 'latin1')
  bytes.writeUInt32BE(13, 8)
  bytes.write('IHDR', 12, 'latin1')
  bytes.writeUInt32BE(width, 16)
  bytes.writeUInt32BE(height, 20)
  return bytes
}

function jpegFrame(width: number, height: number): Buffer {
  return Buffer.from([0xff, 0xc0, 0, 11, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 1, 0x11, 0])
}

/** Returns a JPEG up to its frame header, after a segment with the header of a thumbnail of another size. */
export function jpegHead(width: number, height: number): Buffer {
  const thumbnail = Buffer.concat([Buffer.from([0xff, 0xd8]), jpegFrame(16, 16)])
  const segment = Buffer.concat([Buffer.from([0xff, 0xe1, 0, thumbnail.length + 2]), thumbnail])
  return Buffer.concat([Buffer.from([0xff, 0xd8]), segment, jpegFrame(width, height)])
}

export const gifHead = Buffer.from('GIF89a\x01\0\x01\0', 'latin1')
export const webpHead = Buffer.from('RIFF\x1a\0\0\0WEBPVP8L', 'latin1')

function webp(chunk: string, data: Buffer): Buffer {
  const head = Buffer.alloc(20)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(12 + data.length, 4)
  head.write(`WEBP${chunk}`, 8, 'latin1')
  head.writeUInt32LE(data.length, 16)
  return Buffer.concat([head, data])
}

/** Returns a lossy WebP up to its frame header. */
export function webpLossy(width: number, height: number): Buffer {
  // A key frame with its start code; the two highest bits of each side are a scale.
  const data = Buffer.from([0x10, 0, 0, 0x9d, 0x01, 0x2a, 0, 0, 0, 0])
  data.writeUInt16LE(width | 0x4000, 6)
  data.writeUInt16LE(height, 8)
  return webp('VP8 ', data)
}

/** Returns a lossless WebP up to its header. */
export function webpLossless(width: number, height: number): Buffer {
  const data = Buffer.alloc(10)
  data[0] = 0x2f
  data.writeUInt32LE((width - 1) | ((height - 1) << 14), 1)
  return webp('VP8L', data)
}

/** Returns an extended WebP up to its canvas. */
export function webpExtended(width: number, height: number): Buffer {
  const data = Buffer.alloc(10)
  data.writeUIntLE(width - 1, 4, 3)
  data.writeUIntLE(height - 1, 7, 3)
  return webp('VP8X', data)
}

export function dataUri(bytes: Buffer, mediaType = 'image/png'): string {
  return `data:${mediaType};base64,${bytes.toString('base64')}`
}
