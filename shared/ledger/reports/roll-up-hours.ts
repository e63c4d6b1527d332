import type { Sql } from '../pool.ts'
import { JOINED_SUMS, JOINS, ledgerSums } from './ledger-sums.ts'
import { marginsOfHours } from './margin.ts'

/** Longer than any transaction of the service: a commit may carry a time as old as its transaction's beginning. */
const STABLE_AFTER = '10 minutes'

/**
 * Adds the totals of at most `limit` hours that no longer change. An hour waits for the finality of its settlements, since a
 * reorganization may still remove them. Safe in every worker concurrently: each computes the same rows. `OFFSET 0`
 * keeps PostgreSQL from looking for the earliest settlement by time, which would read the whole history when there is
 * none. Returns the number of hours added.
 */
export async function rollUpHours(sql: Sql, limit: number): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'roll_up_console_hours',
    text: `WITH bounds AS MATERIALIZED (
       SELECT beginning AS lower, least(ending, beginning + $2 * interval '1 hour') AS upper
       FROM (SELECT date_trunc('hour', coalesce(
           (SELECT max(hour) + interval '1 hour' FROM ledger_hours),
           least((SELECT min(accepted_at) FROM jobs), (SELECT min(created_at) FROM uncharged_work))), 'UTC') AS beginning,
         date_trunc('hour', least(now() - $1::interval,
           (SELECT min(finished_at) FROM (
              SELECT finished_at FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL OFFSET 0) AS few)),
           'UTC') AS ending) AS ends),
     buckets AS (
       SELECT start FROM bounds, generate_series(lower, upper - interval '1 hour', interval '1 hour') AS start),
     ${ledgerSums('hour', '(SELECT lower FROM bounds)', '(SELECT upper FROM bounds)')},
     models AS (${marginsOfHours('(SELECT lower FROM bounds)', '(SELECT upper FROM bounds)')})
     INSERT INTO ledger_hours (hour, charged_jobs, charged_total, settled_total, settlement_gas,
       uncharged_count, uncharged_total, vendor_total, margins)
     SELECT start, ${JOINED_SUMS}, coalesce(models.margins, '[]') FROM buckets ${JOINS} LEFT JOIN models USING (start)
     ON CONFLICT (hour) DO NOTHING`,
    values: [STABLE_AFTER, limit],
  })
  return rowCount ?? 0
}
