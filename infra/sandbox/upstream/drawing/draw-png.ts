import { createHash } from 'node:crypto'
import { crc32, deflateSync } from 'node:zlib'

const SIDE = 1024
const PALETTE_SIZE = 64
const DISC_COUNT = 9

/**
 * Draws a real PNG of 1024 × 1024 pixels: a sky of bands and a few discs whose places and colors come from the prompt's
 * SHA-256, so the same prompt produces the same bytes. A palette keeps it far below 200 KB.
 *
 * Source: PNG specification, third edition (w3.org/TR/png-3): signature, IHDR, PLTE, IDAT, IEND.
 */
export function drawPng(prompt: string): Buffer {
  const seed = createHash('sha256').update(prompt).digest()
  const header = Buffer.alloc(13)
  header.writeUInt32BE(SIDE, 0)
  header.writeUInt32BE(SIDE, 4)
  // Eight bits per pixel, color type 3: indices into the palette.
  header.set([8, 3, 0, 0, 0], 8)
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('PLTE', palette(seed)),
    chunk('IDAT', deflateSync(paint(seed))),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** Returns a chunk: length, type, data, and the CRC over type and data. */
function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(data.length, 0)
  frame.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
}

/** Returns a gradient between two colors of the seed. */
function palette(seed: Buffer): Buffer {
  const colors = Buffer.alloc(PALETTE_SIZE * 3)
  for (let index = 0; index < PALETTE_SIZE; index += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      const [from = 0, to = 0] = [seed[channel], seed[channel + 3]]
      colors[index * 3 + channel] = Math.round(from + ((to - from) * index) / (PALETTE_SIZE - 1))
    }
  }
  return colors
}

/** Returns the rows, each with a filter byte (none) and 1024 indices. */
function paint(seed: Buffer): Buffer {
  const rows = Buffer.alloc(SIDE * (SIDE + 1))
  for (let y = 0; y < SIDE; y += 1) {
    const start = y * (SIDE + 1) + 1
    rows.fill(Math.floor((y * PALETTE_SIZE) / SIDE), start, start + SIDE)
  }
  for (let disc = 0; disc < DISC_COUNT; disc += 1) {
    const [x = 0, y = 0, size = 0] = seed.subarray(6 + disc * 2)
    paintDisc(rows, { x: x * 4, y: y * 4, radius: 24 + (size % 104), color: (x + y + size) % PALETTE_SIZE })
  }
  return rows
}

function paintDisc(
  rows: Buffer,
  { x, y, radius, color }: { x: number; y: number; radius: number; color: number },
): void {
  for (let row = Math.max(0, y - radius); row < Math.min(SIDE, y + radius); row += 1) {
    const half = Math.floor(Math.sqrt(radius * radius - (row - y) * (row - y)))
    const start = row * (SIDE + 1) + 1
    rows.fill(color, start + Math.max(0, x - half), start + Math.min(SIDE, x + half))
  }
}
