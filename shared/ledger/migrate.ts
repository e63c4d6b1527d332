import { setTimeout as delay } from 'node:timers/promises'
import type { PoolClient } from 'pg'
import { createRecords, readApplied, recordMigration } from './applied-migrations.ts'
import { type Migration, readMigrations, statementsOf } from './migration-files.ts'
import type { Pool, Sql } from './pool.ts'
import { type LockPatience, untilUnblocked } from './until-unblocked.ts'

/** An arbitrary constant: it serializes migrating processes. */
const ADVISORY_LOCK = 8453_2026
const ADVISORY_LOCK_POLL_MS = 500

/** A statement that locks out every other one of its table, also in a migration without a transaction. */
const ADDS_COLUMN = /\bADD COLUMN\b/

export interface MigrationOptions extends LockPatience {
  /** Where the migrations are; default: those of this version. */
  readonly folder?: URL
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
    const pending = await withoutApplied(client, migrations)
    await createRecords(client)
    for (const migration of pending) {
      await requireNoneRunning(client, migration, pending)
      await applyUntilUnblocked(client, migration, options)
    }
    return pending.map(({ name }) => name)
  } finally {
    // Ends the session, and with it the lock.
    client.release(true)
  }
}

/**
 * Refuses a migration that programs which run now do not work with. They know all migrations that were applied before, and
 * none of those that are pending.
 */
async function requireNoneRunning(
  sql: Sql,
  { name, compatibleFrom }: Migration,
  pending: readonly Migration[],
): Promise<void> {
  if (compatibleFrom !== null && !pending.some((each) => each.name === compatibleFrom)) return
  const { rows: tables } = await sql.query<{ exists: boolean }>(
    `SELECT to_regclass('process_reports') IS NOT NULL AS exists`,
  )
  if (tables[0]?.exists !== true) return
  const { rows: running } = await sql.query<{ kind: string; instance: string }>(
    `SELECT kind, instance FROM process_reports WHERE seen_at >= now() - interval '10 seconds' ORDER BY kind, instance`,
  )
  if (running.length === 0) return
  const names = running.map(({ kind, instance }) => `${kind} ${instance}`)
  throw new Error(
    `${name}: programs that run now do not work with it; stop them first, and repeat after 10 seconds: ${names.join(', ')}`,
  )
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
  const run = (lockTimeoutMs: number) => apply(client, migration, lockTimeoutMs)
  await untilUnblocked(client, { name: migration.name, remains: remainsOf(migration), run }, options)
}

function remainsOf({ runsWithoutTransaction }: Migration): string {
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
