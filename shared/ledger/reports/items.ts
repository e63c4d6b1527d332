import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'
import { NEWEST_TRANSACTION } from '../settlement-transactions.ts'
import type { LedgerPeriod } from './period.ts'

/** A job or settlement that needs a person's decision. Times are ISO 8601. */
export interface ReviewItem {
  readonly jobId: string
  readonly jobState: string
  readonly settlementState: string | null
  readonly transaction: string | null
  readonly chargeAtomic: bigint | null
  readonly reason: string | null
  readonly since: string
}

export interface ReviewItems {
  readonly count: number
  readonly oldest: readonly ReviewItem[]
}

const SHOWN_ITEMS = 100
/** The condition of the index settlements_unusual. */
const UNUSUAL = "settlements.state NOT IN ('signed', 'confirmed', 'reverted')"

/**
 * Returns jobs in review, and settlements that ended neither confirmed nor reverted, that no person has resolved, oldest
 * first. The usual states are excluded instead of listing the others, so that a new state is included.
 */
export async function readReviewItems(sql: Sql): Promise<ReviewItems> {
  const rows = await readRows<ReviewItem & { count: number }>(sql, {
    name: 'read_review_items',
    text: `WITH candidates AS (
       SELECT id FROM jobs WHERE state = 'review'
       UNION SELECT job_id FROM settlements WHERE ${UNUSUAL})
     SELECT jobs.id AS "jobId", jobs.state AS "jobState", settlements.state AS "settlementState",
       COALESCE(settlements.transaction_hash, ${NEWEST_TRANSACTION}) AS transaction,
       COALESCE(settlements.charge_amount, jobs.charge_amount) AS "chargeAtomic",
       COALESCE(settlements.failure_reason, jobs.failure_reason) AS reason,
       to_json(COALESCE(settlements.finished_at, jobs.finished_at, jobs.accepted_at)) #>> '{}' AS since,
       count(*) OVER ()::int AS count
     FROM candidates JOIN jobs USING (id) LEFT JOIN settlements ON settlements.job_id = jobs.id AND ${UNUSUAL}
     WHERE (jobs.state = 'review' AND NOT EXISTS (
         SELECT FROM resolutions WHERE item = 'review' AND resolutions.job_id = jobs.id))
       OR (settlements.state IN ('lost', 'surplus') AND NOT EXISTS (
         SELECT FROM resolutions WHERE item = 'settlement' AND resolutions.settlement_id = settlements.id))
       OR (settlements.state NOT IN ('lost', 'surplus') AND NOT EXISTS (
         SELECT FROM resolutions WHERE item = 'review' AND resolutions.job_id = jobs.id))
     ORDER BY since, jobs.id LIMIT $1`,
    values: [SHOWN_ITEMS],
  })
  return { count: rows[0]?.count ?? 0, oldest: rows.map(({ count: _count, ...item }) => item) }
}

/** A settlement that the ledger does not know and nobody has resolved. Times are ISO 8601. */
export interface OpenUnknownSettlement {
  readonly payer: string
  /** The Permit2 nonce, in decimal; with the payer, it identifies the settlement. */
  readonly nonce: string
  readonly amountAtomic: bigint
  readonly transaction: string
  readonly idempotencyKey: string | null
  readonly requestId: string | null
  readonly jobId: string | null
  readonly since: string
}

export interface UnknownSettlements {
  readonly count: number
  readonly totalAtomic: bigint
  readonly oldest: readonly OpenUnknownSettlement[]
}

const SHOWN_SETTLEMENTS = 100

/** Returns the settlements that callers or workers met and the ledger does not know, of any age, oldest first. */
export async function readUnknownSettlements(sql: Sql): Promise<UnknownSettlements> {
  const rows = await readRows<OpenUnknownSettlement & Pick<UnknownSettlements, 'count' | 'totalAtomic'>>(sql, {
    name: 'read_unknown_settlements',
    text: `SELECT payer, nonce::text AS nonce, amount AS "amountAtomic", transaction_hash AS transaction,
       idempotency_key AS "idempotencyKey", request_id AS "requestId", job_id AS "jobId",
       to_json(found_at) #>> '{}' AS since, count(*) OVER ()::int AS count, sum(amount) OVER () AS "totalAtomic"
     FROM unknown_settlements WHERE resolved_at IS NULL ORDER BY found_at, payer, unknown_settlements.nonce LIMIT $1`,
    values: [SHOWN_SETTLEMENTS],
  })
  const { count, totalAtomic } = rows[0] ?? { count: 0, totalAtomic: 0n }
  return { count, totalAtomic, oldest: rows.map(({ count: _count, totalAtomic: _total, ...settlement }) => settlement) }
}

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
  const byOutcome = await readRows<ResolutionTotals>(sql, {
    name: 'read_resolution_totals',
    text: `SELECT item, outcome, count(*)::int AS count, sum(amount) AS "totalAtomic" FROM resolutions
     WHERE resolved_at >= $1 AND resolved_at < $2 GROUP BY item, outcome ORDER BY item, outcome`,
    values: [from, to],
  })
  const newest = await readRows<LedgerResolution>(sql, {
    name: 'read_newest_resolutions',
    text: `SELECT id, item, outcome, amount AS "amountAtomic", payer, job_id AS "jobId", settlement_id AS "settlementId", operator, reason,
       to_json(resolved_at) #>> '{}' AS "resolvedAt", refund_transaction AS "refundTransaction"
     FROM resolutions WHERE resolved_at >= $1 AND resolved_at < $2 ORDER BY resolved_at DESC, id LIMIT $3`,
    values: [from, to, SHOWN_RESOLUTIONS],
  })
  return { byOutcome, newest }
}
