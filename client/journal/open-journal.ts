import { randomBytes } from 'node:crypto'
import { mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { AppendedFile, unwritable } from './appended-file.ts'
import { Attempts } from './attempts.ts'
import type { Journal } from './journal.ts'
import { withLock } from './lock.ts'
import { FINISHED_SUFFIX, LIVE_SUFFIX, OtherFiles } from './other-files.ts'

/**
 * Opens the journal in `home`. Each process appends to a file of its own and reads the others', so that processes need no
 * lock except for reservations. The file is created with the first entry.
 */
export function openJournal(home: string, now: () => number = Date.now): Journal {
  const directory = join(home, 'journal')
  const started = new Date(now()).toISOString().replace(/[:.]/g, '-')
  const name = `${started}-${process.pid}-${randomBytes(4).toString('hex')}`
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
      file ??= new AppendedFile(join(directory, `${name}${LIVE_SUFFIX}`))
      file.append(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
      for (const entry of entries) attempts.apply(entry, name, true)
    },
    flush: async () => await file?.flush(),
    refresh,
    exclusively: (work) => withLock(directory, work),
    isWrittenElsewhere: (writer) => writer !== name && isRunning(processOf(writer)),
    close: async () => {
      isClosed = true
      if (file === null) return
      await file.close()
      file = null
      renameSync(join(directory, `${name}${LIVE_SUFFIX}`), join(directory, `${name}${FINISHED_SUFFIX}`))
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

function processOf(writer: string): number {
  return Number(/-(\d+)-[0-9a-f]{8}$/.exec(writer)?.[1] ?? 0)
}

/** A process of another user exists, too, although it cannot be signaled. */
function isRunning(pid: number): boolean {
  if (pid === 0 || pid === process.pid) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
