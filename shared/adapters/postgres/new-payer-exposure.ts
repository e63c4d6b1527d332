import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Sql } from './pool.ts'

/** What all payers that were new when their jobs were accepted have caused together. */
export interface NewPayerExposure {
  /** Unfinished work, at its maximum or at its charge once that is fixed. */
  readonly open: AtomicAmount
  /** Debts and uncharged work of the window. */
  readonly lasting: AtomicAmount
  /** Until the oldest of `lasting` leaves the window. */
  readonly oldestLeavesInSeconds: number
}

interface ExposureRow {
  open: string
  owed: string
  uncharged: string
  leaves_in_seconds: number | null
}

/**
 * Sums up what new payers have open, owe and caused without a charge. A debt counts while it is younger than the
 * window: otherwise a stranger's unpaid debts would keep new payers out until the withheld results expire.
 */
export async function readNewPayerExposure(sql: Sql, windowSeconds: number): Promise<NewPayerExposure> {
  const { rows } = await sql.query<ExposureRow>({
    name: 'read_new_payer_exposure',
    text: `SELECT open, owed, uncharged, extract(epoch FROM
         LEAST(oldest_debt, oldest_work) + make_interval(secs => $1) - clock_timestamp())::float8 AS leaves_in_seconds
     FROM (
       SELECT coalesce(sum(coalesce(charge_amount, quoted_maximum)) FILTER (WHERE finished_at IS NULL), 0) AS open,
         coalesce(sum(charge_amount) FILTER (WHERE finished_at IS NOT NULL), 0) AS owed, min(finished_at) AS oldest_debt
       FROM jobs WHERE is_new_payer AND (finished_at IS NULL OR is_owed)
         AND (finished_at IS NULL OR finished_at > now() - make_interval(secs => $1))) AS jobs,
     (
       SELECT coalesce(sum(amount), 0) AS uncharged, min(created_at) AS oldest_work
       FROM uncharged_work WHERE is_new_payer AND created_at > now() - make_interval(secs => $1)) AS work`,
    values: [windowSeconds],
  })
  const [row] = rows
  if (!row) throw new Error('a sum over no rows is a row')
  return {
    open: atomicAmount(BigInt(row.open)),
    lasting: atomicAmount(BigInt(row.owed) + BigInt(row.uncharged)),
    oldestLeavesInSeconds: Math.max(1, Math.ceil(row.leaves_in_seconds ?? windowSeconds)),
  }
}
