import { closeSync, openSync, readSync } from 'node:fs'

const NEWLINE = 0x0a
const CHUNK_BYTES = 1 << 20

/** Calls `onLine` for each complete line from `offset` on, and returns the offset after the last one. */
export function readLines(path: string, offset: number, onLine: (line: string) => void): number {
  const descriptor = openSync(path, 'r')
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    let rest = Buffer.alloc(0)
    for (let position = offset; ; ) {
      const count = readSync(descriptor, chunk, 0, CHUNK_BYTES, position)
      if (count === 0) return position - rest.length
      position += count
      const bytes = rest.length === 0 ? chunk.subarray(0, count) : Buffer.concat([rest, chunk.subarray(0, count)])
      const end = bytes.lastIndexOf(NEWLINE) + 1
      if (end > 0) for (const line of bytes.toString('utf8', 0, end - 1).split('\n')) onLine(line)
      // Copied, because the chunk is filled again.
      rest = Buffer.from(bytes.subarray(end))
    }
  } finally {
    closeSync(descriptor)
  }
}
