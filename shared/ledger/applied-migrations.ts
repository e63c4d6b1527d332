import type { Migration } from './migration-files.ts'
import type { Sql } from './pool.ts'

/** SQLSTATE of a missing table. */
const UNDEFINED_TABLE = '42P01'

/** A migration that a database records as applied. */
export interface AppliedMigration {
  readonly digest: string
  /** See `Migration.compatibleFrom`. */
  readonly compatibleFrom: string | null
}

/**
 * Creates the tables that record applied migrations. Version 0.1.0 starts only if it knows every row of
 * `schema_migrations`, so a migration that earlier programs can work with is recorded in `schema_additions`, which 0.1.0
 * does not read; any other one in `schema_migrations`.
 */
export async function createRecords(sql: Sql): Promise<void> {
  await sql.query(
    `CREATE TABLE IF NOT EXISTS schema_migrations (
       name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
     CREATE TABLE IF NOT EXISTS schema_additions (
       name text PRIMARY KEY, digest text NOT NULL, compatible_from text NOT NULL,
       applied_at timestamptz NOT NULL DEFAULT now())`,
  )
}

/** Records a migration as applied. */
export async function recordMigration(sql: Sql, { name, digest, compatibleFrom }: Migration): Promise<void> {
  await sql.query(
    compatibleFrom === null
      ? {
          name: 'record_migration',
          text: 'INSERT INTO schema_migrations (name, digest) VALUES ($1, $2)',
          values: [name, digest],
        }
      : {
          name: 'record_addition',
          text: 'INSERT INTO schema_additions (name, digest, compatible_from) VALUES ($1, $2, $3)',
          values: [name, digest, compatibleFrom],
        },
  )
}

/** Reads what a database records, by name. A database that was never migrated has none. */
export async function readApplied(sql: Sql): Promise<ReadonlyMap<string, AppliedMigration>> {
  const rows = [
    ...(await rowsOf(sql, 'SELECT name, digest, NULL AS compatible_from FROM schema_migrations')),
    ...(await rowsOf(sql, 'SELECT name, digest, compatible_from FROM schema_additions')),
  ]
  return new Map(rows.map(({ name, digest, compatible_from }) => [name, { digest, compatibleFrom: compatible_from }]))
}

interface Row {
  readonly name: string
  readonly digest: string
  readonly compatible_from: string | null
}

async function rowsOf(sql: Sql, statement: string): Promise<readonly Row[]> {
  try {
    return (await sql.query<Row>(statement)).rows
  } catch (error) {
    const isAbsent = error instanceof Error && 'code' in error && error.code === UNDEFINED_TABLE
    if (isAbsent) return []
    throw error
  }
}
