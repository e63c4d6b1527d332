import { closeSync, openSync, readSync } from 'node:fs'
import { parseObject } from '../wire/json.ts'
import { type JournalEntry, parseEntry } from './entries.ts'

const NEWLINE = 0x0a
const CHUNK_BYTES = 1 << 20

/** An entry with its writer and the number of its line in the writer's own file. */
export interface WrittenEntry {
  readonly entry: JournalEntry
  readonly writer: string
  readonly line: number
}

/** How far the file of one writer was read. */
export interface Progress {
  readonly offset: number
  readonly lines: number
}

export const FROM_START: Progress = { offset: 0, lines: 0 }

/** Reads a writer's own file from where it was read to before; lines that were cut off or are unknown only count. */
export function readOwnFile(
  path: string,
  writer: string,
  from: Progress,
  onEntry: (written: WrittenEntry) => void,
): Progress {
  let line = from.lines
  const offset = readLines(path, from.offset, (text) => {
    const entry = parseEntry(text)
    if (entry !== null) onEntry({ entry, writer, line })
    line += 1
  })
  return { offset, lines: line }
}

/** Reads a merged file and returns its writers. */
export function readMergedFile(path: string, onEntry: (written: WrittenEntry) => void): readonly string[] {
  const writers: string[] = []
  readLines(path, 0, (text) => {
    const value = (parseObject(text) ?? {}) as Partial<WrittenEntry>
    if (typeof value.writer === 'string') writers.push(value.writer)
    const writer = writers.at(-1)
    const { line, entry } = value
    if (writer !== undefined && line !== undefined && entry !== undefined) onEntry({ entry, writer, line })
  })
  return writers
}

/** Renders the part of one writer in a merged file: a line that names it, then its entries. */
export function renderPart(writer: string, entries: readonly WrittenEntry[]): string {
  const lines = [{ writer }, ...entries.map(({ line, entry }) => ({ line, entry }))]
  return lines.map((each) => `${JSON.stringify(each)}\n`).join('')
}

/** Calls `onLine` for each complete line from `offset` on, and returns the offset after the last one. */
function readLines(path: string, offset: number, onLine: (line: string) => void): number {
  const descriptor = openSync(path, 'r')
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    let rest = Buffer.alloc(0)
    for (let position = offset; ;) {
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
