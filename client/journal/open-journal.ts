import { mkdirSync, readdirSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AppendedFile, unwritable } from './appended-file.ts'
import { Attempts } from './attempt.ts'
import { FROM_START, type Progress, readMergedFile, readOwnFile, type WrittenEntry } from './file-entries.ts'
import { FINISHED_SUFFIX, isRunning, LIVE_SUFFIX, newWriterName, readFileName } from './file-names.ts'
import type { Journal } from './journal.ts'
import { withLock } from './lock.ts'
import { type MergeThreshold, mergeFiles, openWriters } from './merge-files.ts'

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

/** Merging is left to the end of a process, when nobody waits for it. */
const AT_CLOSE: MergeThreshold = { files: 16, bytes: 2 << 20 }
/** Processes that were killed merge nothing, so that the files may pile up. */
const AT_OPEN: MergeThreshold = { files: 64, bytes: 16 << 20 }

/** Merges what earlier processes have left, if it would take long to read, and opens the journal in `home`. */
export async function openTidyJournal(home: string, now: () => number = Date.now): Promise<Journal> {
  const directory = join(home, 'journal')
  makeDirectory(directory)
  await mergeFiles(directory, AT_OPEN, now).catch(() => undefined)
  return openJournal(home, now)
}

/**
 * Opens the journal in `home`. Each process appends to a file of its own and reads the others', so that processes need no
 * lock except for reservations. The file is created with the first entry.
 */
export function openJournal(home: string, now: () => number = Date.now): Journal {
  const directory = join(home, 'journal')
  const name = newWriterName(now())
  makeDirectory(directory)
  const attempts = new Attempts()
  const others = new OtherFiles(directory, name)
  let file: AppendedFile | null = null
  let isClosed = false
  const refresh = () => {
    for (const { entry, writer } of others.read()) attempts.apply(entry, writer, false)
  }
  refresh()
  return {
    directory: home,
    attempts,
    append: (...newEntries) => {
      if (isClosed) throw unwritable(directory, new Error('it is closed'))
      const at = new Date(now()).toISOString()
      const entries = newEntries.map((entry) => ({ ...entry, at }))
      openWriters.add(name)
      file ??= new AppendedFile(join(directory, `${name}${LIVE_SUFFIX}`))
      file.append(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
      for (const entry of entries) attempts.apply(entry, name, true)
    },
    flush: async () => await file?.flush(),
    refresh,
    exclusively: (work) => withLock(directory, work),
    isWrittenElsewhere: (writer) =>
      writer !== name && !others.isFinished(writer) && (openWriters.has(writer) || isRunning(writer)),
    close: async () => {
      if (isClosed) return
      isClosed = true
      if (file === null) return
      await file.close()
      openWriters.delete(name)
      renameSync(join(directory, `${name}${LIVE_SUFFIX}`), join(directory, `${name}${FINISHED_SUFFIX}`))
      await mergeFiles(directory, AT_CLOSE, now).catch(() => undefined)
    },
  }
}

function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw unwritable(directory, error)
  }
}
