import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, Written } from '#shared/jobs/job-store.ts'
import type { Pool } from '../pool.ts'
import { asTransition, moveJob, notifyOutcome } from './move-job.ts'

type Completion = Parameters<ExecutionStore['completeJob']>[1]

/** settling → completed: payment, receipt and released result become durable together, and only then does anyone wake. */
export async function completeJob(pool: Pool, job: ClaimedJob, completion: Completion): Promise<Written> {
  const { receipt, receiptSecretId, paymentResponse } = completion
  return await asTransition(pool, async (sql) => {
    await moveJob(
      sql,
      job,
      'completed',
      ', receipt_id = $5, payment_response = $6, finished_at = now(), lease_expires_at = NULL',
      [receipt.id, JSON.stringify(paymentResponse)],
    )
    const confirmed = await sql.query(
      `UPDATE settlements SET state = 'confirmed', transaction_hash = $2, block_number = $3, block_hash = $5,
         finished_at = now()
       WHERE id = $1 AND authorization_id = $4 AND state = 'signed'`,
      [
        completion.settlementId,
        completion.transactionHash,
        completion.blockNumber.toString(),
        job.authorizationId,
        completion.blockHash,
      ],
    )
    // Nothing is released on the strength of another payment than the job's present one.
    if (confirmed.rowCount !== 1) throw new Error(`job ${job.id} has no open settlement ${completion.settlementId}`)
    // Used by now, or not needed in the end: then the payer's next payment may count on it.
    if (job.authorization.gasSponsoring)
      await sql.query(
        'UPDATE authorizations SET permit_released_at = now() WHERE id = $1 AND permit_nonce IS NOT NULL',
        [job.authorizationId],
      )
    await sql.query('INSERT INTO receipts (id, job_id, token_secret_id, body) VALUES ($1, $2, $3, $4)', [
      receipt.id,
      job.id,
      receiptSecretId,
      JSON.stringify(receipt),
    ])
    await notifyOutcome(sql, job.id)
  })
}
