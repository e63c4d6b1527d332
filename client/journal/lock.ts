import { statSync } from 'node:fs'
import { join } from 'node:path'
import { lock } from 'proper-lockfile'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'

/** A lock whose process died is taken over after this time. */
const STALE_MS = 10_000
/** Together longer than `STALE_MS`. */
const RETRIES = { retries: 600, minTimeout: 5, maxTimeout: 50, factor: 1.5, randomize: true }

/** Runs `work` while no other process holds the directory's lock. */
export async function withLock<T>(directory: string, work: () => T | Promise<T>): Promise<T> {
  const path = join(directory, 'journal.lock')
  let compromised: Error | undefined
  const release = await lock(directory, {
    lockfilePath: path,
    realpath: false,
    stale: STALE_MS,
    retries: RETRIES,
    onCompromised: (error) => {
      compromised = error
    },
  }).catch((error: unknown) => {
    throw lockError(directory, error)
  })
  const held = identityOf(path)
  const isLost = () => compromised !== undefined || identityOf(path) !== held
  try {
    const result = await work()
    if (isLost()) throw lockError(directory, compromised)
    return result
  } finally {
    // The lock of another process must not be released.
    if (!isLost()) await release()
  }
}

/** Tells this lock from one that another process has created in its place. */
function identityOf(path: string): string | null {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? null : `${stat.ino} ${stat.birthtimeMs}`
}

function lockError(directory: string, cause: unknown): FareboxError {
  return uncharged(
    'journal_locked',
    `The lock of the journal in ${directory} could not be held.`,
    'Check whether another farebox process hangs, then repeat the call.',
    cause,
  )
}
