import type { MonthTotals } from '#shared/archive/archive-store.ts'
import type { Sql } from '../pool.ts'
import { IS_OVER, NOT_ARCHIVED } from './is-over.ts'
import { boundsOf } from './month.ts'

/** Counts what a run would archive of a month. The bytes are those of the stored columns, without what stays of them. */
export async function readTotals(sql: Sql, month: string): Promise<MonthTotals> {
  const { rows } = await sql.query<{ calls: string; remaining: string; bytes: string }>({
    name: 'read_archive_totals',
    text: `SELECT count(*) FILTER (WHERE is_over) AS calls, count(*) FILTER (WHERE NOT is_over) AS remaining,
       coalesce(sum(bytes) FILTER (WHERE is_over), 0) AS bytes
     FROM (SELECT ${IS_OVER} AS is_over,
         pg_column_size(jobs.terms) + pg_column_size(jobs.payment_response)
           + (SELECT pg_column_size(body) - pg_column_size(kept_of_receipt(body)) FROM receipts WHERE job_id = jobs.id)
           + (SELECT sum(pg_column_size(signed) - pg_column_size(kept_of_authorization(signed)))
              FROM authorizations WHERE job_id = jobs.id)
           + (SELECT pg_column_size(bound.terms) FROM idempotency_keys AS bound
              WHERE bound.idempotency_key = jobs.idempotency_key) AS bytes
       FROM jobs WHERE ${NOT_ARCHIVED}) AS calls`,
    values: [...boundsOf(month)],
  })
  const [row] = rows
  return {
    month,
    calls: Number(row?.calls ?? 0),
    bytes: Number(row?.bytes ?? 0),
    remaining: Number(row?.remaining ?? 0),
  }
}
