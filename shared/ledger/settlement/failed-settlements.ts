import type { JobState, StoredTransaction } from '#shared/jobs/job.ts'
import { isUnfinished } from '#shared/jobs/transitions.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type Authorization, storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst, readRows } from '../read-rows.ts'
import { readTransactions } from '../settlement-transactions.ts'
import { inTransaction } from '../transaction.ts'
import type { JudgedBlock } from './end-settlement.ts'
import type { SettledAt } from './finality.ts'

type Hex = `0x${string}`

/** A settlement that was ended as failed, by facts of a block that is not final. */
export interface FailedSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  /** Of a remote facilitator's settlement; else `null`. */
  readonly recordedBlock: bigint | null
  /** The block that proves the failure; `null` when there is none at present. */
  readonly judgedAt: JudgedBlock | null
  /** Newest first; empty for those of a remote facilitator. */
  readonly transactions: readonly StoredTransaction[]
  /** Transactions that a remote facilitator named; empty for those of own keys. */
  readonly namedHashes: readonly Hex[]
}

/**
 * Returns failed settlements of own keys, or of a remote facilitator, at most `limit`: those judged at this block and
 * later ones, oldest block first, or, with `null`, some of those that no block of the chain has judged yet. These may stay
 * open until their deadlines: in a fixed order, more of them than `limit` would hide the others.
 */
export async function readFailed(
  sql: Sql,
  settledBy: 'own_key' | 'remote_facilitator',
  fromNumber: bigint | null,
  limit: number,
): Promise<readonly FailedSettlement[]> {
  const [name, condition, order] =
    fromNumber === null
      ? ['read_unjudged_settlements', 'block_hash IS NULL AND $3::numeric IS NULL', 'random()']
      : ['read_failed_settlements', 'block_hash IS NOT NULL AND block_number >= $3', 'block_number']
  const rows = await readRows<
    Omit<FailedSettlement, 'authorization' | 'judgedAt' | 'transactions'> & {
      signed: unknown
      number: bigint | null
      hash: string | null
    }
  >(sql, {
    name,
    text: `SELECT settlements.id AS "settlementId", settlements.job_id AS "jobId", signed,
       charge_amount AS "chargeAmount", recorded_block AS "recordedBlock", block_number AS number, block_hash AS hash,
       ARRAY(SELECT hash FROM settlement_transactions WHERE settlement_id = settlements.id
         AND settlement_transactions.settled_by = 'remote_facilitator' ORDER BY signed_at DESC) AS "namedHashes"
     FROM settlements JOIN authorizations ON authorizations.id = authorization_id
     WHERE state = 'reverted' AND finalized_at IS NULL AND settled_by = $1 AND ${condition}
     ORDER BY ${order} LIMIT $2`,
    values: [settledBy, limit, fromNumber?.toString() ?? null],
  })
  const transactions = await readTransactions(
    sql,
    rows.map(({ settlementId }) => settlementId),
  )
  return rows.map(({ signed, number, hash, ...row }) => ({
    ...row,
    authorization: storedAuthorizationSchema.parse(signed),
    judgedAt: number === null || hash === null ? null : { number, hash },
    transactions: transactions.get(row.settlementId) ?? [],
  }))
}

/**
 * Stores the block that proves the failure, or `null` when there is none at present. A settlement that is final or was
 * reopened does not change.
 */
export async function judgeFailed(sql: Sql, settlementId: string, judgedAt: JudgedBlock | null): Promise<void> {
  await sql.query({
    name: 'judge_failed_settlement',
    text: `UPDATE settlements SET block_number = $2, block_hash = $3
     WHERE id = $1 AND state = 'reverted' AND finalized_at IS NULL`,
    values: [settlementId, judgedAt?.number.toString() ?? null, judgedAt?.hash ?? null],
  })
}

/**
 * Handles a failed settlement that charged the payer after all. `reopened`: the job waited for another payment, and
 * moves settlement_failed → settling; the worker that takes it confirms the transfer and completes it. `open`: the job
 * is being worked on, and looks at its earlier settlements before it settles. `surplus`: the job was paid by another
 * settlement or outside of the service, or has no result, so a person must decide. `one_charge_per_job` refuses to
 * reopen it while another one is open. The job's row is locked first, so that a payment cannot reopen the job at the
 * same time.
 */
export async function reopenSettlement(
  pool: Pool,
  settlementId: string,
  settledAt: SettledAt,
): Promise<'reopened' | 'open' | 'surplus'> {
  return await inTransaction(pool, async (sql) => {
    const { state, hasResult, isPaidOutside } = await lockJobOf(sql, settlementId)
    if (state === 'settlement_failed' && hasResult && !isPaidOutside) {
      await sql.query({
        name: 'reopen_settlement',
        text: `WITH settlement AS (${REOPENED} RETURNING job_id, authorization_id, charge_amount)
         UPDATE jobs SET state = 'settling', failure_code = NULL, failure_reason = NULL, finished_at = NULL,
           is_owed = false, fence = fence + 1, lease_expires_at = NULL, run_after = now(), enqueued_at = NULL,
           ${NOT_DEFERRED}, ${CHARGED_BY_SETTLEMENT}
         FROM settlement WHERE jobs.id = settlement.job_id`,
        values: [settlementId],
      })
      return 'reopened'
    }
    if (isUnfinished(state)) return 'open'
    const ended = isPaidOutside ? 'paid outside of the service' : state
    await markSurplus(sql, settlementId, settledAt, `the job was ${ended} when this settlement succeeded`)
    return 'surplus'
  })
}

/** Whether a person ended the settlement, such as by a refund: then it pays for nothing. */
export const IS_RESOLVED = `EXISTS (
    SELECT FROM resolutions WHERE resolutions.settlement_id = settlements.id AND resolutions.item = 'settlement')`

/** The settlement `$1`, open again. */
export const REOPENED = `UPDATE settlements SET state = 'signed', finished_at = NULL, transaction_hash = NULL,
    block_number = NULL, block_hash = NULL, failure_reason = NULL
  WHERE settlements.id = $1 AND settlements.state IN ('reverted', 'surplus')
    AND NOT ${IS_RESOLVED}`

/** The job takes authorization and charge from the settlement; an earlier quote may have been higher than the last. */
export const CHARGED_BY_SETTLEMENT = `authorization_id = settlement.authorization_id,
  charge_amount = settlement.charge_amount, quoted_maximum = GREATEST(quoted_maximum, settlement.charge_amount)`

interface JobOfSettlement {
  readonly state: JobState
  readonly hasResult: boolean
  /** Whether its debt ended by a payment outside of the service: a further one is the payer's to get back. */
  readonly isPaidOutside: boolean
}

async function lockJobOf(sql: Sql, settlementId: string): Promise<JobOfSettlement> {
  await sql.query({
    name: 'lock_job_of_settlement',
    text: 'SELECT FROM jobs WHERE id = (SELECT job_id FROM settlements WHERE id = $1) FOR UPDATE',
    values: [settlementId],
  })
  // A statement of its own, which sees what was written while the lock was waited for.
  const row = await readFirst<JobOfSettlement>(sql, {
    name: 'read_job_of_settlement',
    text: `SELECT jobs.state, result_body IS NOT NULL AS "hasResult",
       EXISTS (SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND item = 'debt'
         AND outcome = 'paid_outside' AND resolved_at >= jobs.finished_at) AS "isPaidOutside"
     FROM jobs JOIN settlements ON settlements.job_id = jobs.id WHERE settlements.id = $1`,
    values: [settlementId],
  })
  if (!row) throw new Error(`no settlement ${settlementId}`)
  return row
}

async function markSurplus(sql: Sql, settlementId: string, settledAt: SettledAt, reason: string): Promise<void> {
  await sql.query({
    name: 'mark_settlement_surplus',
    text: `UPDATE settlements SET state = 'surplus', transaction_hash = $2, block_number = $3, block_hash = $4,
       finished_at = now(), failure_reason = $5
     WHERE id = $1 AND state = 'reverted' AND finalized_at IS NULL`,
    values: [settlementId, settledAt.transactionHash, settledAt.blockNumber.toString(), settledAt.blockHash, reason],
  })
}
