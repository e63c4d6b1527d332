import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { type JournalEntry, parseEntry } from './entries.ts'

const NEWLINE = 0x0a

/** A journal file that another process appends to. */
export class TailedFile {
  #offset = 0

  /** Returns the complete entries since the last time; a line without its end is read again later. */
  read(path: string): readonly JournalEntry[] {
    const bytes = readFrom(path, this.#offset)
    const end = bytes.lastIndexOf(NEWLINE) + 1
    this.#offset += end
    const lines = bytes.toString('utf8', 0, end).split('\n')
    return lines.map(parseEntry).filter((entry) => entry !== null)
  }
}

function readFrom(path: string, offset: number): Buffer {
  const descriptor = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(Math.max(0, fstatSync(descriptor).size - offset))
    let filled = 0
    while (filled < bytes.length) {
      const count = readSync(descriptor, bytes, filled, bytes.length - filled, offset + filled)
      if (count === 0) break
      filled += count
    }
    return bytes.subarray(0, filled)
  } finally {
    closeSync(descriptor)
  }
}
