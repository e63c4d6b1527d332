import type { Sql } from '../pool.ts'

/** Something that a person must look at. Times are ISO 8601. */
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

/**
 * Jobs in review, and settlements that ended neither confirmed nor reverted, however long ago; the oldest first. Any other
 * state that a settlement may end in is worth a look too, so the usual ones are excluded instead of naming the odd ones.
 */
export async function readReviewItems(sql: Sql): Promise<ReviewItems> {
  const { rows } = await sql.query<
    Record<'job_id' | 'job_state' | 'since', string> &
      Record<'settlement_state' | 'transaction' | 'charge' | 'reason', string | null> & { count: number }
  >(
    `SELECT jobs.id AS job_id, jobs.state AS job_state, settlements.state AS settlement_state,
       COALESCE(settlements.transaction_hash, (SELECT hash FROM settlement_transactions
         WHERE settlement_id = settlements.id ORDER BY signed_at DESC LIMIT 1)) AS transaction,
       COALESCE(settlements.charge_amount, jobs.charge_amount) AS charge, jobs.failure_reason AS reason,
       to_json(COALESCE(settlements.finished_at, jobs.finished_at, jobs.accepted_at)) #>> '{}' AS since,
       count(*) OVER ()::int AS count
     FROM jobs LEFT JOIN settlements
       ON settlements.job_id = jobs.id AND settlements.state NOT IN ('signed', 'confirmed', 'reverted')
     WHERE jobs.state = 'review' OR settlements.id IS NOT NULL
     ORDER BY since, jobs.id LIMIT $1`,
    [SHOWN_ITEMS],
  )
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
