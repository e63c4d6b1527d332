import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { JournalEntry } from './entries.ts'
import { TailedFile } from './tailed-file.ts'

/** A process renames its file from `.live.ndjson` to `.ndjson` at its end, so that finished files are read only once. */
export const LIVE_SUFFIX = '.live.ndjson'
export const FINISHED_SUFFIX = '.ndjson'

export interface WrittenEntry {
  readonly entry: JournalEntry
  readonly writer: string
}

/** The journal files of other processes, earlier and present ones. */
export class OtherFiles {
  readonly #directory: string
  readonly #ownName: string
  readonly #live = new Map<string, TailedFile>()
  readonly #finished = new Set<string>()

  constructor(directory: string, ownName: string) {
    this.#directory = directory
    this.#ownName = ownName
  }

  /** Returns what was appended since the last time, in the order of the entries' times. */
  read(): readonly WrittenEntry[] {
    const found = readdirSync(this.#directory).flatMap((file) => this.#readFile(file))
    // Stable: entries of one file with equal times keep their order.
    return found.sort((a, b) => (a.entry.at < b.entry.at ? -1 : a.entry.at > b.entry.at ? 1 : 0))
  }

  #readFile(file: string): readonly WrittenEntry[] {
    if (!file.endsWith(FINISHED_SUFFIX)) return []
    const isLive = file.endsWith(LIVE_SUFFIX)
    const writer = file.slice(0, -(isLive ? LIVE_SUFFIX : FINISHED_SUFFIX).length)
    if (writer === this.#ownName || this.#finished.has(writer)) return []
    const tail = this.#live.get(writer) ?? new TailedFile()
    this.#live.set(writer, tail)
    const entries = this.#readRenamed(tail, file, writer)
    if (!isLive) {
      this.#finished.add(writer)
      this.#live.delete(writer)
    }
    return entries.map((entry) => ({ entry, writer }))
  }

  /** A file that was renamed since its directory was listed is read under its new name. */
  #readRenamed(tail: TailedFile, file: string, writer: string): readonly JournalEntry[] {
    try {
      return tail.read(join(this.#directory, file))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return tail.read(join(this.#directory, `${writer}${FINISHED_SUFFIX}`))
    }
  }
}
