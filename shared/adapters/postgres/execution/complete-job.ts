import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore, Written } from '#shared/jobs/job-store.ts'
import type { Sql } from '../pool.ts'
import { moveJob } from './move-job.ts'

type Completion = Parameters<ExecutionStore['completeJob']>[1]

/** A completed job points to its receipt. */
const RECEIPT_CONSTRAINT = 'jobs_receipt'

/**
 * settling → completed: payment, receipt and released result become durable together, and only then does anyone wake. Nothing
 * is released on the strength of another payment than the job's present one: without its open settlement there is no receipt,
 * and a job that pointed to none is refused.
 */
export async function completeJob(sql: Sql, job: ClaimedJob, completion: Completion): Promise<Written> {
  const { receipt, receiptSecretId, paymentResponse, settlementId } = completion
  try {
    return await moveJob(sql, job, 'completed', (parameter) => ({
      set: [
        `receipt_id = ${parameter(receipt.id)}`,
        `payment_response = ${parameter(JSON.stringify(paymentResponse))}`,
        'finished_at = now()',
        'lease_expires_at = NULL',
      ],
      together: [
        `confirmed AS (
           UPDATE settlements SET state = 'confirmed', transaction_hash = ${parameter(completion.transactionHash)},
             block_number = ${parameter(completion.blockNumber.toString())},
             block_hash = ${parameter(completion.blockHash)}, finished_at = now()
           FROM moved WHERE settlements.id = ${parameter(settlementId)}
             AND authorization_id = ${parameter(job.authorizationId)} AND state = 'signed'
           RETURNING job_id)`,
        // Used by now, or not needed in the end: then the payer's next payment may count on it.
        ...(job.authorization.gasSponsoring
          ? [
              `released AS (
                 UPDATE authorizations SET permit_released_at = now()
                 FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)} AND permit_nonce IS NOT NULL)`,
            ]
          : []),
        `receipt AS (
           INSERT INTO receipts (id, job_id, token_secret_id, body)
           SELECT ${parameter(receipt.id)}::uuid, job_id, ${parameter(receiptSecretId)}, ${parameter(JSON.stringify(receipt))}::jsonb
           FROM confirmed)`,
      ],
    }))
  } catch (cause) {
    if (cause instanceof Error && 'constraint' in cause && cause.constraint === RECEIPT_CONSTRAINT)
      throw new Error(`job ${job.id} has no open settlement ${settlementId}`, { cause })
    throw cause
  }
}
