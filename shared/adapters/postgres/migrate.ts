import { readdir, readFile } from 'node:fs/promises'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { Pool, Sql } from './pool.ts'
import { inTransaction } from './transaction.ts'

const MIGRATIONS = new URL('./migrations/', import.meta.url)

/** An arbitrary constant: it serializes migrating processes. */
const ADVISORY_LOCK = 8453_2026

/** SQLSTATE of a missing table. */
const UNDEFINED_TABLE = '42P01'

interface Migration {
  readonly name: string
  readonly sql: string
  readonly digest: string
}

/**
 * Brings the schema up to date in one transaction and returns the names of the migrations it ran. Safe to run
 * concurrently in several processes. Throws when a file was changed after it was applied: add a new one instead.
 */
export async function migrate(pool: Pool): Promise<readonly string[]> {
  const migrations = await readMigrations()
  return await inTransaction(pool, async (sql) => {
    await sql.query({ name: 'lock_migrations', text: 'SELECT pg_advisory_xact_lock($1)', values: [ADVISORY_LOCK] })
    await sql.query(
      `CREATE TABLE IF NOT EXISTS schema_migrations (
         name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
    )
    const pending = await withoutApplied(sql, migrations)
    for (const { name, sql: statements, digest } of pending) {
      await sql.query(statements)
      await sql.query({
        name: 'record_migration',
        text: 'INSERT INTO schema_migrations (name, digest) VALUES ($1, $2)',
        values: [name, digest],
      })
    }
    return pending.map(({ name }) => name)
  })
}

/** Differences between a database's migrations and these files, by file name. */
export interface SchemaDifference {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
  /** Migrations of a newer version. */
  readonly unknown: readonly string[]
}

/**
 * Compares a database's migrations with these files, read-only. A database that was never migrated lacks all of them.
 */
export async function compareSchema(sql: Sql): Promise<SchemaDifference> {
  const migrations = await readMigrations()
  const applied = await readApplied(sql)
  const ours = new Set(migrations.map(({ name }) => name))
  return {
    missing: migrations.filter(({ name }) => !applied.has(name)).map(({ name }) => name),
    changed: migrations
      .filter(({ name, digest }) => applied.has(name) && applied.get(name) !== digest)
      .map(({ name }) => name),
    unknown: [...applied.keys()].filter((name) => !ours.has(name)).toSorted(),
  }
}

async function readApplied(sql: Sql): Promise<ReadonlyMap<string, string>> {
  try {
    const { rows } = await sql.query<{ name: string; digest: string }>('SELECT name, digest FROM schema_migrations')
    return new Map(rows.map(({ name, digest }) => [name, digest]))
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === UNDEFINED_TABLE
    if (isAbsent) return new Map()
    throw error
  }
}

async function readMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort()
  return await Promise.all(
    names.map(async (name) => {
      const sql = await readFile(new URL(name, MIGRATIONS), 'utf8')
      return { name, sql, digest: sha256Hex(sql) }
    }),
  )
}

async function withoutApplied(sql: Sql, migrations: readonly Migration[]): Promise<readonly Migration[]> {
  const applied = await readApplied(sql)
  return migrations.filter(({ name, digest }) => {
    const known = applied.get(name)
    if (known !== undefined && known !== digest) throw new Error(`migration ${name} was changed after it was applied`)
    return known === undefined
  })
}
