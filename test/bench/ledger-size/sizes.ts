import type pg from 'pg'

export interface TableSize {
  readonly table: string
  readonly rows: number
  readonly tableBytes: number
  readonly indexBytes: number
}

/** Reads the sizes of the ledger's tables, the largest first. */
export async function readSizes(database: pg.Pool): Promise<readonly TableSize[]> {
  const { rows } = await database.query<Record<'table' | 'rows' | 'tableBytes' | 'indexBytes', string>>(
    `SELECT relname AS "table", greatest(reltuples, 0) AS rows, pg_table_size(oid) AS "tableBytes",
       pg_indexes_size(oid) AS "indexBytes"
     FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
     ORDER BY pg_total_relation_size(oid) DESC`,
  )
  return rows.map((row) => ({
    table: row.table,
    rows: Number(row.rows),
    tableBytes: Number(row.tableBytes),
    indexBytes: Number(row.indexBytes),
  }))
}

export interface IndexSize {
  readonly index: string
  readonly bytes: number
}

/** Reads the sizes of the ledger's indexes, the largest first. */
export async function readIndexSizes(database: pg.Pool): Promise<readonly IndexSize[]> {
  const { rows } = await database.query<{ index: string; bytes: string }>(
    `SELECT indexrelname AS "index", pg_relation_size(indexrelid) AS bytes FROM pg_stat_user_indexes
     WHERE schemaname = 'public' ORDER BY pg_relation_size(indexrelid) DESC`,
  )
  return rows.map(({ index, bytes }) => ({ index, bytes: Number(bytes) }))
}
