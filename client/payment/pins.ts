import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { replaceFile } from '../files/files.ts'
import { unwritable } from '../journal/appended-file.ts'
import type { Journal } from '../journal/journal.ts'
import { uncharged } from '../wire/farebox-error.ts'
import type { Challenge } from './challenge.ts'
import type { Terms } from './check-challenge.ts'

/** Terms by origin, as stored at the first use of each service. */
type Pinned = Readonly<Record<string, Terms>>

/** The terms that each service had at its first use. */
export interface Pins {
  /** Returns what the origin's challenges must agree with. */
  termsOf(origin: string): Partial<Terms>
  /** Stores the terms of the first challenge that was accepted. */
  pin(origin: string, challenge: Challenge): Promise<void>
}

/** Opens the pins next to the journal. `configured` terms hold for every origin, from its first use on. */
export function openPins(journal: Journal, configured: Partial<Terms>): Pins {
  const path = journal.directory === null ? null : join(journal.directory, 'pins.json')
  let pinned: Pinned = path === null ? {} : readPins(path)
  return {
    termsOf: (origin) => ({ ...pinned[origin], ...configured }),
    pin: async (origin, { network, asset, payTo }) => {
      if (pinned[origin] !== undefined) return
      await journal.exclusively(async () => {
        // Another process may have pinned its first challenge meanwhile; the next check compares with that.
        const stored = path === null ? pinned : readPins(path)
        pinned = { [origin]: { network, asset, payTo }, ...stored }
        if (path !== null) await writePins(path, pinned)
      })
    },
  }
}

function readPins(path: string): Pinned {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (isPinned(value)) return value
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
  }
  throw uncharged(
    'pins_unreadable',
    `The pinned payment terms in ${path} cannot be read.`,
    'Restore the file; remove it only if the present terms of every service may be trusted again.',
  )
}

async function writePins(path: string, pinned: Pinned): Promise<void> {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    await replaceFile(path, `${JSON.stringify(pinned, null, 2)}\n`, { mode: 0o600 })
  } catch (error) {
    throw unwritable(path, error)
  }
}

function isPinned(value: unknown): value is Pinned {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((terms: unknown) =>
    ['network', 'asset', 'payTo'].every(
      (name) => typeof (terms as Record<string, unknown> | null)?.[name] === 'string',
    ),
  )
}
