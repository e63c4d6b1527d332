import { RESOLUTION_OUTCOMES, type ResolutionOutcome } from '#shared/jobs/resolution.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { UNCHARGED_KINDS, type UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import { readNewPayerExposure } from '../new-payer-exposure.ts'
import type { Sql } from '../pool.ts'
import { readUnfinishedTotals, type UnfinishedTotals } from '../queue-totals.ts'

export interface CountAndTotal {
  readonly count: number
  readonly total: AtomicAmount
}

/** Totals over the whole ledger, the same in every process. */
export interface LedgerTotals extends UnfinishedTotals {
  /** Since the beginning. */
  readonly charged: CountAndTotal
  /** Provider calls with an unknown outcome since the beginning, at the maximum that was authorized for them. */
  readonly ambiguous: CountAndTotal
  /** Results whose charge could not be settled and has not been paid since. */
  readonly withheld: CountAndTotal
  /** Work that ended without a charge since the beginning, by kind. */
  readonly uncharged: Readonly<Record<UnchargedKind, CountAndTotal>>
  /** What new payers together have open, owe, and caused without a charge within the window. */
  readonly newPayerExposure: AtomicAmount
  /** Number of jobs that need a person's decision and have none yet. */
  readonly inReview: number
  /** How many items persons ended since the beginning, and their amounts, by outcome. */
  readonly resolved: Readonly<Record<ResolutionOutcome, CountAndTotal>>
}

type TotalsRow = Record<`${'charged' | 'ambiguous' | 'withheld'}_${'count' | 'total'}` | 'in_review', string>

/**
 * Reads the totals by partial indexes: the cost depends on open work and the last minutes, not on the length of the
 * history.
 */
export async function readLedgerTotals(sql: Sql): Promise<LedgerTotals> {
  const unfinished = await readUnfinishedTotals(sql)
  const totals = await sql.query<TotalsRow>(
    `SELECT charged_jobs + charged.count AS charged_count, charged_total + charged.total AS charged_total,
       ambiguous_attempts + ambiguous.count AS ambiguous_count, ambiguous_total + ambiguous.total AS ambiguous_total,
       withheld.count AS withheld_count, withheld.total AS withheld_total,
       (SELECT count(*) FROM jobs WHERE state = 'review' AND NOT EXISTS (
          SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND resolutions.item = 'review')) AS in_review
     FROM ledger_totals,
       LATERAL (SELECT count(*), coalesce(sum(charge_amount), 0) AS total FROM jobs
         WHERE state = 'completed' AND finished_at >= through) AS charged,
       LATERAL (SELECT count(*), coalesce(sum(authorized_maximum), 0) AS total
         FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
         WHERE state = 'failed_ambiguous' AND finished_at >= through) AS ambiguous,
       LATERAL (SELECT count(*), coalesce(sum(charge_amount), 0) AS total FROM jobs
         WHERE state = 'settlement_failed') AS withheld
     WHERE ledger_totals.id`,
  )
  const [row] = totals.rows
  if (!row) throw new Error('the stored totals have one row')
  const { all: newPayers } = await readNewPayerExposure(sql)
  return {
    ...unfinished,
    charged: countAndTotal(row.charged_count, row.charged_total),
    ambiguous: countAndTotal(row.ambiguous_count, row.ambiguous_total),
    withheld: countAndTotal(row.withheld_count, row.withheld_total),
    uncharged: await readUnchargedTotals(sql),
    newPayerExposure: atomicAmount(newPayers.open + newPayers.lost),
    inReview: Number(row.in_review),
    resolved: await readResolvedTotals(sql),
  }
}

/** Reads all resolutions: a person made each of them. */
async function readResolvedTotals(sql: Sql): Promise<LedgerTotals['resolved']> {
  const { rows } = await sql.query<TotalOf<ResolutionOutcome>>(
    `SELECT outcome AS of, count(*) AS count, sum(amount) AS total FROM resolutions
     WHERE resolved_at >= '-infinity' GROUP BY outcome`,
  )
  return totalsOf(RESOLUTION_OUTCOMES, rows)
}

interface TotalOf<Name> {
  readonly of: Name
  readonly count: string
  readonly total: string
}

/** Returns the totals of all names, of which those without a row are zero. */
function totalsOf<Name extends string>(names: readonly Name[], rows: readonly TotalOf<Name>[]) {
  const totalOf = (name: Name) => {
    const { count, total } = rows.find((row) => row.of === name) ?? { count: '0', total: '0' }
    return countAndTotal(count, total)
  }
  return Object.fromEntries(names.map((name) => [name, totalOf(name)])) as Record<Name, CountAndTotal>
}

async function readUnchargedTotals(sql: Sql): Promise<LedgerTotals['uncharged']> {
  const { rows } = await sql.query<TotalOf<UnchargedKind>>({
    name: 'read_uncharged_totals',
    text: `SELECT kind AS of, sum(count) AS count, sum(total) AS total FROM (
       SELECT kind, count, total FROM uncharged_work_totals WHERE kind = ANY($1)
       UNION ALL
       SELECT kind, count(*), sum(amount) FROM ledger_totals JOIN uncharged_work ON created_at >= through
       WHERE ledger_totals.id GROUP BY kind) AS parts
     GROUP BY kind`,
    values: [UNCHARGED_KINDS],
  })
  return totalsOf(UNCHARGED_KINDS, rows)
}

function countAndTotal(count: string, total: string): CountAndTotal {
  return { count: Number(count), total: atomicAmount(BigInt(total)) }
}

/**
 * Longer than any transaction of the service: a commit may carry a `finished_at` as old as its transaction's beginning.
 */
const STABLE_AFTER = '10 minutes'
/** The age of the stored totals at which they are brought up to date. */
const ROLL_UP_AFTER = '20 minutes'

/**
 * Moves old charges into the stored totals, so that reading stays cheap. Returns the number of charges moved. Safe in every worker concurrently: the second one finds the row locked, or up
 * to date. Completed jobs, finished attempts and uncharged work never change, so the totals stay right.
 */
export async function rollUpTotals(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ moved: number }>({
    name: 'roll_up_totals',
    text: `WITH present AS MATERIALIZED (
       SELECT through, now() - $1::interval AS until FROM ledger_totals
       WHERE id AND through < now() - $2::interval FOR UPDATE SKIP LOCKED),
     charged AS (
       SELECT count(jobs.id) AS count, coalesce(sum(charge_amount), 0) AS total FROM present JOIN jobs
         ON state = 'completed' AND finished_at >= through AND finished_at < until),
     ambiguous AS (
       SELECT count(authorizations.id) AS count, coalesce(sum(authorized_maximum), 0) AS total
       FROM present JOIN upstream_attempts ON state = 'failed_ambiguous' AND finished_at >= through AND finished_at < until
         JOIN authorizations ON authorizations.id = authorization_id),
     uncharged AS (
       INSERT INTO uncharged_work_totals AS totals (kind, count, total)
       SELECT kind, count(*), sum(amount) FROM present JOIN uncharged_work ON created_at >= through AND created_at < until
       GROUP BY kind
       ON CONFLICT (kind) DO UPDATE
         SET count = totals.count + excluded.count, total = totals.total + excluded.total)
     UPDATE ledger_totals SET through = until,
       charged_jobs = charged_jobs + charged.count, charged_total = charged_total + charged.total,
       ambiguous_attempts = ambiguous_attempts + ambiguous.count, ambiguous_total = ambiguous_total + ambiguous.total
     FROM present, charged, ambiguous WHERE ledger_totals.id
     RETURNING charged.count::int AS moved`,
    values: [STABLE_AFTER, ROLL_UP_AFTER],
  })
  return rows[0]?.moved ?? 0
}
