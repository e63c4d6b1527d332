import type { Sql } from '../pool.ts'
import { JOINED_SUMS, JOINS, ledgerSums } from '../reports/ledger-sums.ts'
import type { Period } from './read-days.ts'

/** One hour of the ledger. */
export interface LedgerHour {
  readonly startedAt: Date
  readonly completed: number
  readonly failed: number
  /** Charges, and what vendors and gas took of them, in atomic USDC. */
  readonly earned: bigint
  readonly cost: bigint
  /** From acceptance to the end, of 99 of 100 completed calls; `null` without any. */
  readonly p99Ms: number | null
}

/** Of how many of the newest calls the durations are read. */
const TIMED_CALLS = 50_000

/** Reads the whole hours from `from` to `until`, oldest first. */
export async function readHours(sql: Sql, { from, until }: Period): Promise<readonly LedgerHour[]> {
  const { rows } = await sql.query<{
    start: Date
    charged_jobs: string
    charged_total: string
    settlement_gas: string
    vendor_total: string
    failed: number
    p99_ms: number | null
  }>({
    name: 'read_console_last_hours',
    text: `WITH ${ledgerSums('hour', '$1::timestamptz', '$2::timestamptz')},
     failed AS (SELECT date_trunc('hour', finished_at, 'UTC') AS start, count(*)::int AS failed FROM jobs
       WHERE state IN ('failed', 'settlement_failed') AND finished_at >= $1 AND finished_at < $2 GROUP BY 1),
     timed AS (SELECT date_trunc('hour', finished_at, 'UTC') AS start,
         percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM finished_at - accepted_at)) * 1000 AS p99_ms
       FROM (SELECT finished_at, accepted_at FROM jobs
         WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2
         ORDER BY finished_at DESC LIMIT $3) AS newest GROUP BY 1),
     buckets AS (SELECT start FROM generate_series($1::timestamptz, $2::timestamptz - interval '1 hour', interval '1 hour') AS start)
     SELECT start, ${JOINED_SUMS}, coalesce(failed.failed, 0) AS failed, timed.p99_ms
     FROM buckets ${JOINS} LEFT JOIN failed USING (start) LEFT JOIN timed USING (start) ORDER BY start`,
    values: [from, until, TIMED_CALLS],
  })
  return rows.map((row) => ({
    startedAt: row.start,
    completed: Number(row.charged_jobs),
    failed: row.failed,
    earned: BigInt(row.charged_total),
    cost: BigInt(row.settlement_gas) + BigInt(row.vendor_total),
    p99Ms: row.p99_ms === null ? null : Math.round(row.p99_ms),
  }))
}
