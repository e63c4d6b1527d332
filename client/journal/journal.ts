import type { Attempts } from './attempts.ts'
import type { NewEntry } from './entries.ts'

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
  /** Returns whether the process that wrote this file last is another one and still runs. */
  isWrittenElsewhere(writer: string): boolean
  close(): Promise<void>
}
