import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { FROM_START, type Progress, readMergedFile, readOwnFile, type WrittenEntry } from './file-entries.ts'
import { readFileName } from './file-names.ts'

/** Files may be renamed and merged while they are read; each pass sees what the one before has missed. */
const MOST_PASSES = 5

/** The journal files of other processes, earlier and present ones. Each entry is read once, wherever it is. */
export class OtherFiles {
  readonly #directory: string
  readonly #ownName: string
  /** How far the file of each writer was read; `finished` if nothing will be added. */
  readonly #progress = new Map<string, Progress | 'finished'>()
  readonly #mergedFiles = new Set<string>()

  constructor(directory: string, ownName: string) {
    this.#directory = directory
    this.#ownName = ownName
    this.#progress.set(ownName, 'finished')
  }

  /** Returns what was appended since the last time, in the order of the entries' times. */
  read(): readonly WrittenEntry[] {
    const found: WrittenEntry[] = []
    for (let pass = 0; pass < MOST_PASSES; pass += 1) if (!this.#readAll(found)) break
    // Stable: entries of one file with equal times keep their order.
    return found.sort((a, b) => (a.entry.at < b.entry.at ? -1 : a.entry.at > b.entry.at ? 1 : 0))
  }

  /** Returns whether a writer has closed its file. */
  isFinished(writer: string): boolean {
    return writer !== this.#ownName && this.#progress.get(writer) === 'finished'
  }

  /** Returns whether a file vanished under its name, so that another pass is needed. */
  #readAll(found: WrittenEntry[]): boolean {
    let isAgain = false
    for (const file of readdirSync(this.#directory)) {
      try {
        this.#readFile(file, found)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        isAgain = true
      }
    }
    return isAgain
  }

  #readFile(file: string, found: WrittenEntry[]): void {
    const name = readFileName(file)
    if (name === null) return
    const { kind, writer } = name
    if (kind === 'merged') return this.#readMerged(file, found)
    const progress = this.#progress.get(writer) ?? FROM_START
    if (progress === 'finished') return
    const path = join(this.#directory, file)
    const isUnchanged = kind === 'live' && statSync(path).size === progress.offset
    const after = isUnchanged ? progress : readOwnFile(path, writer, progress, (written) => found.push(written))
    this.#progress.set(writer, kind === 'live' ? after : 'finished')
  }

  /** Reads of each part only what was not read from the writer's own file. */
  #readMerged(file: string, found: WrittenEntry[]): void {
    if (this.#mergedFiles.has(file)) return
    const writers = readMergedFile(join(this.#directory, file), (written) => {
      const progress = this.#progress.get(written.writer) ?? FROM_START
      if (progress !== 'finished' && written.line >= progress.lines) found.push(written)
    })
    for (const writer of writers) this.#progress.set(writer, 'finished')
    this.#mergedFiles.add(file)
  }
}
