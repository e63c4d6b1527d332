import { Attempts } from './attempt.ts'
import type { NewEntry } from './entries.ts'

const WRITER = 'memory'

/**
 * The durable record of all paid calls of this machine's user: what was intended, signed, answered and verified. It never
 * contains private keys, requests or results.
 */
export interface Journal {
  /** Where other files of the same lifetime are kept; `null` in memory. */
  readonly directory: string | null
  readonly attempts: Attempts
  /** Writes entries; throws when they cannot be written. They are durable after `flush`. */
  append(...entries: readonly NewEntry[]): void
  /** Resolves when all entries so far would survive a loss of power. */
  flush(): Promise<void>
  /** Reads what other processes wrote since the last time. */
  refresh(): void
  /** Runs `work` while no other process runs its own. */
  exclusively<T>(work: () => T | Promise<T>): Promise<T>
  /** Returns whether another client wrote this file that is still open, in this process or in one that runs. */
  isWrittenElsewhere(writer: string): boolean
  close(): Promise<void>
}

/** Creates a journal that ends with the process: budgets hold, but a killed call cannot be continued. */
export function createMemoryJournal(now: () => number = Date.now): Journal {
  const attempts = new Attempts()
  return {
    directory: null,
    attempts,
    append: (...entries) => {
      const at = new Date(now()).toISOString()
      for (const entry of entries) attempts.apply({ ...entry, at }, WRITER, true)
    },
    flush: () => Promise.resolve(),
    refresh: () => undefined,
    exclusively: async (work) => await work(),
    isWrittenElsewhere: () => false,
    close: () => Promise.resolve(),
  }
}
