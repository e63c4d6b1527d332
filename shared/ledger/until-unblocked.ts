import { setTimeout as delay } from 'node:timers/promises'
import type { Sql } from './pool.ts'

const SHOWN_TRANSACTIONS = 3
/**
 * How long a migration waits for the lock of a table. As long as it waits, every statement on that table waits behind
 * it. Much shorter than PostgreSQL's `deadlock_timeout` of a second: a migration that locks several tables may deadlock
 * with a call, and must be the one that fails.
 */
const LOCK_TIMEOUT_MS = 300
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 15_000
export const GIVE_UP_AFTER_MS = 600_000

/** SQLSTATEs of a lock that was not obtained: `lock_timeout`, and a deadlock that this migration lost. */
const LOCK_FAILURES: ReadonlySet<unknown> = new Set(['55P03', '40P01'])

export interface LockPatience {
  /** Receives one line for each step, for a person who watches. */
  readonly onProgress?: ((line: string) => void) | undefined
  readonly lockTimeoutMs?: number
  /** How long a migration is repeated that does not obtain its locks. */
  readonly giveUpAfterMs?: number
}

/** A migration that fails within `lockTimeoutMs` when it does not obtain a lock. */
interface Attempt {
  readonly name: string
  /** What remains of an attempt that failed, as a clause. */
  readonly remains: string
  readonly run: (lockTimeoutMs: number) => Promise<unknown>
}

/**
 * Repeats a migration that does not obtain a lock soon, so that it never stops the statements behind it for long, and names
 * the transactions that it waits for.
 */
export async function untilUnblocked(sql: Sql, attempt: Attempt, patience: LockPatience): Promise<void> {
  const { onProgress, lockTimeoutMs = LOCK_TIMEOUT_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = patience
  const { name, remains } = attempt
  const startedAt = performance.now()
  onProgress?.(`${name}: applying`)
  for (let pauseMs = FIRST_RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_RETRY_MS)) {
    const attemptedAt = performance.now()
    try {
      await attempt.run(lockTimeoutMs)
      onProgress?.(`${name}: applied in ${Math.round(performance.now() - attemptedAt)} ms`)
      return
    } catch (error) {
      if (!isLockFailure(error)) throw new Error(`${name}: ${messageOf(error)}`, { cause: error })
      const blockers = await findOldTransactions(sql)
      if (performance.now() - startedAt + pauseMs > giveUpAfterMs)
        throw new Error(
          `${name}: no lock within ${lockTimeoutMs} ms, tried for ${Math.round(giveUpAfterMs / 1000)} s. ${blockers} ${remains}; end those transactions and repeat.`,
          { cause: error },
        )
      onProgress?.(`${name}: blocked (${messageOf(error)}); next attempt in ${pauseMs} ms. ${blockers}`)
      await delay(pauseMs)
    }
  }
}

function isLockFailure(error: unknown): boolean {
  return error instanceof Error && 'code' in error && LOCK_FAILURES.has(error.code)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Returns a sentence that names the oldest transactions of other sessions, which are what a lock usually waits for. */
async function findOldTransactions(sql: Sql): Promise<string> {
  const { rows } = await sql.query<{ pid: number; program: string; seconds: number }>(
    `SELECT pid, application_name AS program, extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
     FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
     ORDER BY xact_start LIMIT ${SHOWN_TRANSACTIONS}`,
  )
  if (rows.length === 0) return 'No other session is in a transaction now.'
  const sessions = rows.map(({ pid, program, seconds }) => `"${program}" (pid ${pid}, for ${seconds} s)`)
  return `The oldest transactions: ${sessions.join(', ')}.`
}
