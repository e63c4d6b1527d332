import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

/** How a person ended an item. Times are ISO 8601. */
export interface LedgerResolution {
  readonly id: string
  readonly item: ResolvableItem
  readonly outcome: ResolutionOutcome
  readonly amountAtomic: bigint
  readonly payer: string
  readonly jobId: string | null
  readonly settlementId: string | null
  readonly operator: string
  readonly reason: string
  readonly resolvedAt: string
  /** The transaction of a refund. */
  readonly refundTransaction: string | null
}

export interface ResolutionTotals {
  readonly item: ResolvableItem
  readonly outcome: ResolutionOutcome
  readonly count: number
  readonly totalAtomic: bigint
}

/** The resolutions of a period. */
export interface Resolutions {
  readonly byOutcome: readonly ResolutionTotals[]
  readonly newest: readonly LedgerResolution[]
}

const SHOWN_RESOLUTIONS = 100

/** Returns what persons ended in the period: totals of all, and the newest ones. */
export async function readResolutions(sql: Sql, { from, to }: LedgerPeriod): Promise<Resolutions> {
  const totals = await sql.query<Omit<ResolutionTotals, 'totalAtomic'> & { total: string }>({
    name: 'read_resolution_totals',
    text: `SELECT item, outcome, count(*)::int AS count, sum(amount) AS total FROM resolutions
     WHERE resolved_at >= $1 AND resolved_at < $2 GROUP BY item, outcome ORDER BY item, outcome`,
    values: [from, to],
  })
  const { rows } = await sql.query<Omit<LedgerResolution, 'amountAtomic'> & { amount: string }>({
    name: 'read_newest_resolutions',
    text: `SELECT id, item, outcome, amount, payer, job_id AS "jobId", settlement_id AS "settlementId", operator, reason,
       to_json(resolved_at) #>> '{}' AS "resolvedAt", refund_transaction AS "refundTransaction"
     FROM resolutions WHERE resolved_at >= $1 AND resolved_at < $2 ORDER BY resolved_at DESC, id LIMIT $3`,
    values: [from, to, SHOWN_RESOLUTIONS],
  })
  return {
    byOutcome: totals.rows.map(({ total, ...row }) => ({ ...row, totalAtomic: BigInt(total) })),
    newest: rows.map(({ amount, ...row }) => ({ ...row, amountAtomic: BigInt(amount) })),
  }
}
