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

export function dataUri(bytes: Buffer, mediaType = 'image/png'): string {
  return `data:${mediaType};base64,${bytes.toString('base64')}`
}
