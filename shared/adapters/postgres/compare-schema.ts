import { readApplied } from './applied-migrations.ts'
import { readMigrations } from './migration-files.ts'
import type { Sql } from './pool.ts'

/** Differences between a database's migrations and this version's files, by file name. */
export interface SchemaDifference {
  readonly missing: readonly string[]
  readonly changed: readonly string[]
  /** Migrations of a newer version that this version cannot work with. */
  readonly incompatible: readonly string[]
}

/**
 * Compares a database's migrations with this version's files, read-only. A database that was never migrated lacks all of
 * them. A migration of a newer version is tolerated when its own record says that programs as old as this one work with
 * it: such a program can start during a roll-out of the newer version, and after it was rolled back.
 */
export async function compareSchema(sql: Sql): Promise<SchemaDifference> {
  const migrations = await readMigrations()
  const applied = await readApplied(sql)
  const ours = new Set(migrations.map(({ name }) => name))
  return {
    missing: migrations.filter(({ name }) => !applied.has(name)).map(({ name }) => name),
    changed: migrations
      .filter(({ name, digest }) => applied.has(name) && applied.get(name)?.digest !== digest)
      .map(({ name }) => name),
    incompatible: [...applied]
      .filter(([name, { compatibleFrom }]) => !ours.has(name) && !(compatibleFrom !== null && ours.has(compatibleFrom)))
      .map(([name]) => name)
      .toSorted(),
  }
}
