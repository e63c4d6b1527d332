import type { Sql } from '../pool.ts'
import { NEWEST_TRANSACTION } from '../settlement-transactions.ts'

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
