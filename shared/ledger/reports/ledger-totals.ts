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

const TOTAL_KINDS = ['charged', 'ambiguous', ...UNCHARGED_KINDS] as const

/** What a row of `ledger_totals` (`stored`) does not know yet, up to `until`, an SQL condition on a time: its count and total. */
const recentWork = (until: (time: string) => string) => `
  SELECT count(*) AS count, coalesce(sum(charge_amount), 0) AS total FROM jobs
  WHERE stored.kind = 'charged' AND state = 'completed' AND finished_at >= through ${until('finished_at')}
  UNION ALL
  SELECT count(*), coalesce(sum(authorized_maximum), 0)
  FROM upstream_attempts JOIN authorizations ON authorizations.id = authorization_id
  WHERE stored.kind = 'ambiguous' AND state = 'failed_ambiguous' AND finished_at >= through ${until('finished_at')}
  UNION ALL
  SELECT count(*), coalesce(sum(amount), 0) FROM uncharged_work
  WHERE uncharged_work.kind = stored.kind AND created_at >= through ${until('created_at')}`

/**
 * Reads the totals by partial indexes: the cost depends on open work and the last minutes, not on the length of the
 * history.
 */
export async function readLedgerTotals(sql: Sql): Promise<LedgerTotals> {
  const unfinished = await readUnfinishedTotals(sql)
  const { rows } = await sql.query<TotalOf<(typeof TOTAL_KINDS)[number]>>({
    name: 'read_ledger_totals',
    text: `SELECT kind AS of, stored.count + sum(recent.count) AS count, stored.total + sum(recent.total) AS total
     FROM ledger_totals AS stored, LATERAL (${recentWork(() => '')}) AS recent WHERE kind = ANY($1) GROUP BY kind`,
    values: [TOTAL_KINDS],
  })
  const { charged, ambiguous, ...uncharged } = totalsOf(TOTAL_KINDS, rows)
  const { all: newPayers } = await readNewPayerExposure(sql)
  return {
    ...unfinished,
    ...(await readUncollected(sql)),
    charged,
    ambiguous,
    uncharged,
    newPayerExposure: atomicAmount(newPayers.open + newPayers.lost),
    resolved: await readResolvedTotals(sql),
  }
}

async function readUncollected(sql: Sql): Promise<Pick<LedgerTotals, 'withheld' | 'inReview'>> {
  const { rows } = await sql.query<{ count: string; total: string; in_review: string }>(
    `SELECT count(*) AS count, coalesce(sum(charge_amount), 0) AS total,
       (SELECT count(*) FROM jobs WHERE state = 'review' AND NOT EXISTS (
          SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND resolutions.item = 'review')) AS in_review
     FROM jobs WHERE state = 'settlement_failed'`,
  )
  const [row] = rows
  if (!row) throw new Error('a SELECT of counts always returns one row')
  return { withheld: countAndTotal(row.count, row.total), inReview: Number(row.in_review) }
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
 * Moves what is old into the stored totals, so that reading stays cheap. Returns the number of charges moved. Safe in every
 * worker concurrently: the second one finds the rows locked, or up to date. Completed jobs, finished attempts and uncharged
 * work never change, so the totals stay right.
 */
export async function rollUpTotals(sql: Sql): Promise<number> {
  const { rows } = await sql.query<{ moved: number }>({
    name: 'roll_up_totals',
    text: `WITH stored AS MATERIALIZED (
       SELECT kind, through, now() - $1::interval AS until FROM ledger_totals
       WHERE kind = ANY($3) AND through < now() - $2::interval FOR UPDATE SKIP LOCKED),
     moved AS (
       SELECT kind, until, sum(recent.count) AS count, sum(recent.total) AS total
       FROM stored, LATERAL (${recentWork((time) => `AND ${time} < until`)}) AS recent GROUP BY kind, until)
     UPDATE ledger_totals AS totals
     SET through = until, count = totals.count + moved.count, total = totals.total + moved.total
     FROM moved WHERE totals.kind = moved.kind
     RETURNING CASE totals.kind WHEN 'charged' THEN moved.count ELSE 0 END::int AS moved`,
    values: [STABLE_AFTER, ROLL_UP_AFTER, TOTAL_KINDS],
  })
  return rows.reduce((sum, { moved }) => sum + moved, 0)
}
