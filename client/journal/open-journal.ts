import { mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { AppendedFile, unwritable } from './appended-file.ts'
import { Attempts } from './attempts.ts'
import { FINISHED_SUFFIX, isRunning, LIVE_SUFFIX, newWriterName } from './file-names.ts'
import type { Journal } from './journal.ts'
import { withLock } from './lock.ts'
import { type MergeThreshold, mergeFiles, openWriters } from './merge-files.ts'
import { OtherFiles } from './other-files.ts'

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
    isWrittenElsewhere: (writer) => writer !== name && !others.isFinished(writer) && isRunning(writer),
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
