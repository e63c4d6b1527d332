import type { Pool, Sql } from '../pool.ts'
import { JOINED_SUMS, JOINS, ledgerSums } from '../reports/ledger-sums.ts'
import { inTransaction } from '../transaction.ts'

/** Half-open, `from` ≤ t < `until`. */
export interface Period {
  readonly from: Date
  readonly until: Date
}

export interface CountAndAmount {
  readonly count: number
  readonly amount: bigint
}

/** One UTC day. Amounts are atomic USDC. */
export interface LedgerDay {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly charged: CountAndAmount
  /** The charges of that day whose settlement is confirmed on chain; equal to `charged` unless one was lost. */
  readonly settled: bigint
  /** Confirmed settlements whose block may still be replaced. */
  readonly notFinal: number
  readonly settlementGas: bigint
  /** What vendors bill for the attempts of that day, as far as usage and prices are known. */
  readonly vendorCost: bigint
  /** Work that ended without a charge, at most; the gas of reverted settlements included. */
  readonly uncharged: CountAndAmount
  /** What operators ended that day, by outcome. */
  readonly resolved: readonly (CountAndAmount & { readonly outcome: string })[]
}

interface DayRow {
  readonly day: string
  readonly charged_jobs: string
  readonly charged_total: string
  readonly settled_total: string
  readonly not_final: string
  readonly settlement_gas: string
  readonly uncharged_count: string
  readonly uncharged_total: string
  readonly vendor_total: string
}

type Resolved = CountAndAmount & { readonly outcome: string }

const DAY = "to_char(start AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day"

/**
 * Returns every day of the period, whose bounds are beginnings of UTC days, newest first: the totals of hours that
 * were rolled up, and the sums of later ones. So the cost depends on the last hours, not on the length of the history.
 */
export async function readDays(pool: Pool, period: Period): Promise<readonly LedgerDay[]> {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    const rolledUp = await readRolledUp(sql, period)
    const since = await findLiveBeginning(sql, period)
    const live = await readLive(sql, { ...period, from: since })
    const resolved = await readResolved(sql, period)
    return daysOf(period).map((day) => {
      const rows = [...rolledUp, ...live].filter((row) => row.day === day)
      const sum = (column: Exclude<keyof DayRow, 'day'>) => rows.reduce((total, row) => total + BigInt(row[column]), 0n)
      return {
        day,
        charged: { count: Number(sum('charged_jobs')), amount: sum('charged_total') },
        settled: sum('settled_total'),
        notFinal: Number(sum('not_final')),
        settlementGas: sum('settlement_gas'),
        vendorCost: sum('vendor_total'),
        uncharged: { count: Number(sum('uncharged_count')), amount: sum('uncharged_total') },
        resolved: resolved.get(day) ?? [],
      }
    })
  })
}

const DAY_MS = 86_400_000

function daysOf({ from, until }: Period): readonly string[] {
  const count = Math.ceil((until.getTime() - from.getTime()) / DAY_MS)
  return Array.from({ length: count }, (_, index) =>
    new Date(until.getTime() - (index + 1) * DAY_MS).toISOString().slice(0, 10),
  )
}

async function readRolledUp(sql: Sql, { from, until }: Period): Promise<readonly DayRow[]> {
  const { rows } = await sql.query<DayRow>({
    name: 'read_console_hours',
    text: `SELECT ${DAY}, sum(charged_jobs) AS charged_jobs, sum(charged_total) AS charged_total,
       sum(settled_total) AS settled_total, 0 AS not_final, sum(settlement_gas) AS settlement_gas,
       sum(uncharged_count) AS uncharged_count, sum(uncharged_total) AS uncharged_total,
       sum(vendor_total) AS vendor_total
     FROM (SELECT date_trunc('day', hour, 'UTC') AS start, charged_jobs, charged_total, settled_total, settlement_gas,
         uncharged_count, uncharged_total, vendor_total FROM ledger_hours WHERE hour >= $1 AND hour < $2) AS hours
     GROUP BY start`,
    values: [from, until],
  })
  return rows
}

async function findLiveBeginning(sql: Sql, { from }: Period): Promise<Date> {
  const { rows } = await sql.query<{ since: Date }>({
    name: 'find_console_live_hours',
    text: `SELECT greatest($1::timestamptz, (SELECT max(hour) + interval '1 hour' FROM ledger_hours)) AS since`,
    values: [from],
  })
  return rows[0]?.since ?? from
}

async function readLive(sql: Sql, { from, until }: Period): Promise<readonly DayRow[]> {
  const { rows } = await sql.query<DayRow>({
    name: 'sum_console_live_hours',
    text: `WITH ${ledgerSums('day', '$1::timestamptz', '$2::timestamptz')},
     buckets AS (SELECT start FROM charged UNION SELECT start FROM settled UNION SELECT start FROM reverted
       UNION SELECT start FROM batches
       UNION SELECT start FROM uncharged UNION SELECT start FROM vendors)
     SELECT ${DAY}, ${JOINED_SUMS}, coalesce(settled.not_final, 0) AS not_final FROM buckets ${JOINS}`,
    values: [from, until],
  })
  return rows
}

async function readResolved(sql: Sql, { from, until }: Period): Promise<ReadonlyMap<string, readonly Resolved[]>> {
  const { rows } = await sql.query<{ day: string; outcome: string; count: number; amount: string }>({
    name: 'sum_console_resolutions',
    text: `SELECT ${DAY}, outcome, count, amount
     FROM (SELECT date_trunc('day', resolved_at, 'UTC') AS start, outcome, count(*)::int AS count, sum(amount) AS amount
       FROM resolutions WHERE resolved_at >= $1 AND resolved_at < $2 GROUP BY 1, 2) AS resolved
     ORDER BY outcome`,
    values: [from, until],
  })
  return Map.groupBy(
    rows.map(({ day, outcome, count, amount }) => ({ day, outcome, count, amount: BigInt(amount) })),
    ({ day }) => day,
  )
}
