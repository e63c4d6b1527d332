import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { lock } from 'proper-lockfile'
import { replaceFile } from '../../files/replace-file.ts'
import type { SpendingLimits } from '../tool.ts'
import { readLimitsFile, unusable } from './limits-file.ts'
import { limitsForm } from './limits-schema.ts'

const RETRIES = { retries: 50, minTimeout: 10, maxTimeout: 100 }

export interface WriteOptions {
  /** The text that the limits were read from; another one is not replaced. Without it, any is. */
  readonly replaces?: string | null | undefined
}

/** Replaces the limits file at once: a process that reads it sees the old limits or the new ones. */
export async function writeLimits(
  path: string,
  limits: SpendingLimits,
  { replaces }: WriteOptions = {},
): Promise<void> {
  const folder = dirname(path)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (cause) {
    throw unwritable(path, cause)
  }
  const release = await lock(folder, {
    lockfilePath: join(folder, 'limits.lock'),
    realpath: false,
    retries: RETRIES,
  }).catch((cause: unknown) => {
    throw unwritable(path, cause)
  })
  try {
    if (replaces !== undefined && (readLimitsFile(path)?.text ?? null) !== replaces) throw changed(path)
    const text = `${JSON.stringify(limitsForm(limits), null, 2)}\n`
    await replaceFile(path, text, { mode: 0o600, followsLinks: false }).catch((cause: unknown) => {
      throw unwritable(path, cause)
    })
  } finally {
    await release()
  }
}

function changed(path: string) {
  return unusable(`The limits file ${path} was changed meanwhile, and was left as it is.`, 'Run the command again.')
}

function unwritable(path: string, cause: unknown) {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return unusable(
    `The limits file ${path} cannot be written (${reason}).`,
    'Free its disk, or set FAREBOX_HOME.',
    cause,
  )
}
