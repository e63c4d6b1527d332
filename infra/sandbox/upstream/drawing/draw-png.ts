import { createHash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

const SIDE = 1024
const COLORS = 256

/**
 * Draws a PNG of 1024 × 1024 pixels: bands from one color of the prompt's SHA-256 to another.
 *
 * Source: PNG specification, third edition (w3.org/TR/png-3): signature, IHDR, PLTE, IDAT, IEND.
 */
export function drawPng(prompt: string): Buffer {
  const seed = createHash('sha256').update(prompt).digest()
  const header = Buffer.alloc(13)
  header.writeUInt32BE(SIDE, 0)
  header.writeUInt32BE(SIDE, 4)
  // Eight bits per pixel, color type 3: indices into the palette.
  header.set([8, 3], 8)
  const palette = Buffer.alloc(COLORS * 3)
  for (const index of palette.keys()) {
    const [from = 0, to = 0] = [seed[index % 3], seed[3 + (index % 3)]]
    palette[index] = from + ((to - from) * Math.floor(index / 3)) / COLORS
  }
  // A row is a filter byte (none) and an index for each pixel.
  const rows = Array.from({ length: SIDE }, (_, y) => Buffer.alloc(SIDE + 1, (y * COLORS) / SIDE).fill(0, 0, 1))
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('PLTE', palette),
    chunk('IDAT', deflateSync(Buffer.concat(rows))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Returns a chunk: length, type, data, and the CRC over type and data. */
function chunk(type: string, data: Buffer): Buffer {
  const frame = Buffer.alloc(12 + data.length)
  frame.writeUInt32BE(data.length, 0)
  frame.write(type, 4, 'latin1')
  frame.set(data, 8)
  frame.writeUInt32BE(crc32(frame.subarray(4, -4)), 8 + data.length)
  return frame
}
