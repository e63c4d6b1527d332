import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { Sql } from '../pool.ts'
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
  const { rows } = await sql.query<
    Record<'job_id' | 'job_state' | 'since', string> &
      Record<'settlement_state' | 'transaction' | 'charge' | 'reason', string | null> & { count: number }
  >({
    name: 'read_review_items',
    text: `WITH candidates AS (
       SELECT id FROM jobs WHERE state = 'review'
       UNION SELECT job_id FROM settlements WHERE ${UNUSUAL})
     SELECT jobs.id AS job_id, jobs.state AS job_state, settlements.state AS settlement_state,
       COALESCE(settlements.transaction_hash, ${NEWEST_TRANSACTION}) AS transaction,
       COALESCE(settlements.charge_amount, jobs.charge_amount) AS charge,
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
  return {
    count: rows[0]?.count ?? 0,
    oldest: rows.map((row) => ({
      jobId: row.job_id,
      jobState: row.job_state,
      settlementState: row.settlement_state,
      transaction: row.transaction,
      chargeAtomic: row.charge === null ? null : BigInt(row.charge),
      reason: row.reason,
      since: row.since,
    })),
  }
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
  const { rows } = await sql.query<
    Record<'payer' | 'nonce' | 'amount' | 'transaction_hash' | 'since' | 'all_total', string> &
      Record<'idempotency_key' | 'request_id' | 'job_id', string | null> & { all_count: number }
  >({
    name: 'read_unknown_settlements',
    text: `SELECT payer, nonce, amount, transaction_hash, idempotency_key, request_id, job_id,
       to_json(found_at) #>> '{}' AS since, count(*) OVER ()::int AS all_count, sum(amount) OVER () AS all_total
     FROM unknown_settlements WHERE resolved_at IS NULL ORDER BY found_at, payer, nonce LIMIT $1`,
    values: [SHOWN_SETTLEMENTS],
  })
  return {
    count: rows[0]?.all_count ?? 0,
    totalAtomic: BigInt(rows[0]?.all_total ?? 0),
    oldest: rows.map((row) => ({
      payer: row.payer,
      nonce: row.nonce,
      amountAtomic: BigInt(row.amount),
      transaction: row.transaction_hash,
      idempotencyKey: row.idempotency_key,
      requestId: row.request_id,
      jobId: row.job_id,
      since: row.since,
    })),
  }
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
