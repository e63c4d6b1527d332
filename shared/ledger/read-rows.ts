import pg from 'pg'
import type { Written } from '#shared/jobs/job.ts'
import type { PreparedStatement, Sql } from './pool.ts'

type TypeId = Parameters<typeof pg.types.getTypeParser>[0]

/** Otherwise pg returns both types as text. Amounts, nonces and blocks have no fraction; `BigInt` throws for one. */
const WHOLE_NUMBERS: pg.CustomTypesConfig = {
  getTypeParser: (type: TypeId, format?: 'text' | 'binary') =>
    type === pg.types.builtins.INT8 || type === pg.types.builtins.NUMERIC
      ? BigInt
      : pg.types.getTypeParser(type, format),
}

/**
 * Runs a statement and returns its rows as they are: it names its columns as the members of `Row`. Values of the types
 * `bigint` and `numeric` are bigint, except inside of JSON and arrays.
 */
export async function readRows<Row extends pg.QueryResultRow>(
  sql: Sql,
  statement: PreparedStatement,
): Promise<readonly Row[]> {
  const { rows } = await sql.query<Row>({ ...statement, types: WHOLE_NUMBERS })
  return rows
}

/** Returns the first row, read like `readRows`; `undefined` without one. */
export async function readFirst<Row extends pg.QueryResultRow>(
  sql: Sql,
  statement: PreparedStatement,
): Promise<Row | undefined> {
  const [row] = await readRows<Row>(sql, statement)
  return row
}

/** Returns the row of a statement that always has one, such as an aggregate without groups, read like `readRows`. */
export async function readOne<Row extends pg.QueryResultRow>(sql: Sql, statement: PreparedStatement): Promise<Row> {
  const row = await readFirst<Row>(sql, statement)
  if (!row) throw new Error(`the statement ${statement.name} always returns a row`)
  return row
}

/** Runs a statement and returns the number of rows that it wrote or returned. */
export async function countRows(sql: Sql, statement: PreparedStatement): Promise<number> {
  const { rowCount } = await sql.query(statement)
  return rowCount ?? 0
}

/** Runs a statement that writes one row under a fence; returns `stale` when it wrote none. */
export async function writeFenced(sql: Sql, statement: PreparedStatement): Promise<Written> {
  return (await countRows(sql, statement)) === 1 ? 'written' : 'stale'
}
