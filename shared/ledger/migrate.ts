import { setTimeout as delay } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { createRecords, readApplied, recordMigration } from './applied-migrations.ts'
import { type Migration, readMigrations, statementsOf } from './migration-files.ts'
import type { Pool, Sql } from './pool.ts'

const SHOWN_TRANSACTIONS = 3

/** An arbitrary constant: it serializes migrating processes. */
const ADVISORY_LOCK = 8453_2026
const ADVISORY_LOCK_POLL_MS = 500

/**
 * How long a migration waits for the lock of a table. As long as it waits, every statement on that table waits behind
 * it. Much shorter than PostgreSQL's `deadlock_timeout` of a second: a migration that locks several tables may deadlock
 * with a call, and must be the one that fails.
 */
const LOCK_TIMEOUT_MS = 300
const FIRST_RETRY_MS = 1000
const LONGEST_RETRY_MS = 15_000
const GIVE_UP_AFTER_MS = 600_000

/** A statement that locks out every other one of its table, also in a migration without a transaction. */
const ADDS_COLUMN = /\bADD COLUMN\b/

/** SQLSTATEs of a lock that was not obtained: `lock_timeout`, and a deadlock that this migration lost. */
const LOCK_FAILURES: ReadonlySet<unknown> = new Set(['55P03', '40P01'])

export interface MigrationOptions {
  /** Where the migrations are; default: those of this version. */
  readonly folder?: URL
  /** Receives one line for each step, for a person who watches. */
  readonly onProgress?: (line: string) => void
  readonly lockTimeoutMs?: number
  /** How long a migration is repeated that does not obtain its locks. */
  readonly giveUpAfterMs?: number
}

/**
 * Brings the schema up to date, in one transaction for each file, and returns the names of the migrations it ran. Safe
 * to repeat, and to run concurrently in several processes. A migration that does not obtain a lock soon is rolled back
 * and repeated later, so that it never stops the statements behind it for long. Throws when a file was
 * changed after it was applied: add a new one instead.
 *
 * The pool must have no statement timeout, and a session for itself: no pooler that shares sessions among transactions.
 */
export async function migrate(pool: Pool, options: MigrationOptions = {}): Promise<readonly string[]> {
  const migrations = await readMigrations(options.folder)
  const client = await pool.connect()
  try {
    await lockMigrations(client, options)
    await createRecords(client)
    const pending = await withoutApplied(client, migrations)
    for (const migration of pending) await applyUntilUnblocked(client, migration, options)
    return pending.map(({ name }) => name)
  } finally {
    // Ends the session, and with it the lock.
    client.release(true)
  }
}

/**
 * Polls for the lock. A statement that waited for it would hold a snapshot, and CREATE INDEX CONCURRENTLY of the process
 * that has the lock would wait for that snapshot: a deadlock.
 */
async function lockMigrations(client: PoolClient, { onProgress }: MigrationOptions): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const { rows } = await client.query<{ is_locked: boolean }>(
      `SELECT pg_try_advisory_lock(${ADVISORY_LOCK}) AS is_locked`,
    )
    if (rows[0]?.is_locked === true) return
    if (attempt === 0) onProgress?.('another process is migrating this database; waiting for it')
    await delay(ADVISORY_LOCK_POLL_MS)
  }
}

async function applyUntilUnblocked(client: PoolClient, migration: Migration, options: MigrationOptions): Promise<void> {
  const { onProgress, lockTimeoutMs = LOCK_TIMEOUT_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = options
  const startedAt = performance.now()
  onProgress?.(`${migration.name}: applying`)
  for (let pauseMs = FIRST_RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_RETRY_MS)) {
    const attemptedAt = performance.now()
    try {
      await apply(client, migration, lockTimeoutMs)
      onProgress?.(`${migration.name}: applied in ${Math.round(performance.now() - attemptedAt)} ms`)
      return
    } catch (error) {
      if (!isLockFailure(error)) throw new Error(`${migration.name}: ${messageOf(error)}`, { cause: error })
      const blockers = await findOldTransactions(client)
      if (performance.now() - startedAt + pauseMs > giveUpAfterMs)
        throw new Error(
          `${migration.name}: no lock within ${lockTimeoutMs} ms, tried for ${Math.round(giveUpAfterMs / 1000)} s. ${blockers} ${appliedOf(migration)}; end those transactions and repeat.`,
          { cause: error },
        )
      onProgress?.(`${migration.name}: blocked (${messageOf(error)}); next attempt in ${pauseMs} ms. ${blockers}`)
      await delay(pauseMs)
    }
  }
}

function appliedOf({ runsWithoutTransaction }: Migration): string {
  return runsWithoutTransaction
    ? 'What this migration did before stays, and may be repeated'
    : 'Nothing of this migration was applied'
}

async function apply(client: PoolClient, migration: Migration, lockTimeoutMs: number): Promise<void> {
  if (migration.runsWithoutTransaction) {
    for (const statement of statementsOf(migration)) {
      // The others wait for old transactions as long as it takes; no other statement waits behind their locks.
      await client.query(`SET lock_timeout = ${ADDS_COLUMN.test(statement) ? lockTimeoutMs : 0}`)
      await client.query(statement)
    }
    await recordMigration(client, migration)
    return
  }
  try {
    await client.query(`BEGIN; SET LOCAL lock_timeout = ${lockTimeoutMs}`)
    await client.query(migration.sql)
    await recordMigration(client, migration)
    await client.query('COMMIT')
  } catch (error) {
    // After a lost connection there is nothing to roll back, and the first error says more.
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

async function withoutApplied(sql: Sql, migrations: readonly Migration[]): Promise<readonly Migration[]> {
  const applied = await readApplied(sql)
  return migrations.filter(({ name, digest }) => {
    const known = applied.get(name)
    if (known && known.digest !== digest) throw new Error(`migration ${name} was changed after it was applied`)
    return !known
  })
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
