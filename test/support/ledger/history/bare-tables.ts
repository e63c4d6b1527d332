import type pg from 'pg'
import { HISTORY_TABLES } from './rows.ts'

/** What was taken off the tables, as statements that put it back. */
interface Removed {
  /** Primary keys and unique constraints with their indexes. */
  readonly keys: readonly Statement[]
  readonly indexes: readonly Statement[]
  /** Without a check of the rows that are there. */
  readonly foreignKeys: readonly Statement[]
  /** The check of each: tables may be checked at once. */
  readonly foreignKeyChecks: readonly Statement[]
}

interface Statement {
  readonly table: string
  readonly text: string
}

/**
 * Drops indexes, unique constraints and foreign keys of the written tables: kept up row by row, they would take several
 * times as long. Returns how to create them again; foreign keys are then checked over all rows.
 */
export async function bareTables(client: pg.Client): Promise<Removed> {
  const foreignKeys = await readConstraints(
    client,
    "contype = 'f' AND (conrelid = ANY($1::regclass[]) OR confrelid = ANY($1::regclass[]))",
  )
  const keys = await readConstraints(client, "contype IN ('p', 'u') AND conrelid = ANY($1::regclass[])")
  const indexes = await client.query<{ name: string } & Statement>(
    `SELECT indexrelid::regclass::text AS name, indrelid::regclass::text AS "table", pg_get_indexdef(indexrelid) AS text
     FROM pg_index WHERE indrelid = ANY($1::regclass[])
       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))`,
    [[...HISTORY_TABLES]],
  )
  for (const { table, name } of [...foreignKeys, ...keys])
    await client.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`)
  for (const { name } of indexes.rows) await client.query(`DROP INDEX ${name}`)
  return {
    keys: keys.map(additionOf),
    indexes: indexes.rows,
    foreignKeys: foreignKeys.map((one) => ({ table: one.table, text: `${additionOf(one).text} NOT VALID` })),
    foreignKeyChecks: foreignKeys.map(({ table, name }) => ({
      table,
      text: `ALTER TABLE ${table} VALIDATE CONSTRAINT ${name}`,
    })),
  }
}

interface Constraint {
  readonly table: string
  readonly name: string
  readonly definition: string
}

async function readConstraints(client: pg.Client, condition: string): Promise<readonly Constraint[]> {
  const { rows } = await client.query<Constraint>(
    `SELECT conrelid::regclass::text AS "table", quote_ident(conname) AS name, pg_get_constraintdef(oid) AS definition
     FROM pg_constraint WHERE ${condition} ORDER BY conname`,
    [[...HISTORY_TABLES]],
  )
  return rows
}

function additionOf({ table, name, definition }: Constraint): Statement {
  return { table, text: `ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition}` }
}
