import type { Migration } from './migration-files.ts'
import type { Sql } from './pool.ts'

/** SQLSTATE of a missing table. */
const UNDEFINED_TABLE = '42P01'
/** SQLSTATE of a missing column. */
const UNDEFINED_COLUMN = '42703'

/** A migration that a database records as applied. */
export interface AppliedMigration {
  readonly digest: string
  /** See `Migration.compatibleFrom`. */
  readonly compatibleFrom: string | null
}

/** Creates the table that records applied migrations. */
export async function createRecords(sql: Sql): Promise<void> {
  await sql.query(
    `CREATE TABLE IF NOT EXISTS schema_migrations (
       name text PRIMARY KEY, digest text NOT NULL, compatible_from text, applied_at timestamptz NOT NULL DEFAULT now())`,
  )
}

/** Records a migration as applied. */
export async function recordMigration(sql: Sql, { name, digest, compatibleFrom }: Migration): Promise<void> {
  await sql.query({
    name: 'record_migration',
    text: 'INSERT INTO schema_migrations (name, digest, compatible_from) VALUES ($1, $2, $3)',
    values: [name, digest, compatibleFrom],
  })
}

/**
 * Reads what a database records, by name. A database that was never migrated has none. Throws for one of a version before
 * 1.0, which did not record `compatible_from` beside the others.
 */
export async function readApplied(sql: Sql): Promise<ReadonlyMap<string, AppliedMigration>> {
  try {
    const { rows } = await sql.query<{ name: string; digest: string; compatible_from: string | null }>(
      'SELECT name, digest, compatible_from FROM schema_migrations',
    )
    return new Map(rows.map(({ name, digest, compatible_from }) => [name, { digest, compatibleFrom: compatible_from }]))
  } catch (error) {
    const code: unknown = Object(error).code
    if (code === UNDEFINED_TABLE) return new Map()
    if (code === UNDEFINED_COLUMN)
      throw new Error('the schema is of a version before 1.0, which cannot be migrated: use an empty database', {
        cause: error,
      })
    throw error
  }
}
