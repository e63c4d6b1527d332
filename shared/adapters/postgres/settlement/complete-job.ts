import type { ClaimedJob, Written } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { setGas } from './set-gas.ts'

type Completion = Parameters<JobSettlementStore['completeJob']>[1]

/** The foreign key from a completed job to its receipt. */
const RECEIPT_CONSTRAINT = 'jobs_receipt'

/**
 * Moves settling → completed: commits settlement, receipt and payment response together; waiting API processes are
 * notified on commit. Only the open settlement of the job's current authorization can release the result: without it no
 * receipt is written, and the foreign key rejects a completed job without a receipt.
 */
export async function completeJob(sql: Sql, job: ClaimedJob, completion: Completion): Promise<Written> {
  const { receipt, receiptSecretId, paymentResponse, settlementId } = completion
  try {
    return await moveJob(sql, job, 'completed', (parameter) => ({
      name: job.authorization.gasSponsoring ? 'complete_job_releasing_permit' : 'complete_job',
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
             block_hash = ${parameter(completion.blockHash)}, finished_at = now(),
             ${setGas(completion.gas ?? null, parameter)}
           FROM moved WHERE settlements.id = ${parameter(settlementId)}
             AND authorization_id = ${parameter(job.authorizationId)} AND state = 'signed'
           RETURNING job_id)`,
        // The permit is used by now, or was not needed: the payer's next payment may rely on another one.
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
