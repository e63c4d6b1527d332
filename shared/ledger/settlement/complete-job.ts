import type { LeasedJob, PaymentResponse, Written } from '#shared/jobs/job.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { Receipt } from '#shared/payment/receipt.ts'
import { type SharedTransition, shareMove } from '../move-job.ts'
import type { Sql } from '../pool.ts'

interface NewCompletion {
  readonly settlementId: string
  readonly transactionHash: string
  readonly blockNumber: bigint
  readonly blockHash: string
  /** Stored for a settlement with one of our own keys. */
  readonly gas?: GasSpent
  readonly receipt: Receipt
  readonly receiptSecretId: string
  readonly paymentResponse: PaymentResponse
}

interface Completion extends NewCompletion {
  readonly job: LeasedJob
}

/** The foreign key from a completed job to its receipt. */
const RECEIPT_CONSTRAINT = 'jobs_receipt'

/**
 * Creates a function that moves settling → completed: commits settlement, receipt and payment response together; waiting
 * API processes are notified on commit, once for each job. Jobs that complete at the same time, as those of a batch do
 * whose receipt is read once, are written by one statement. Only the open settlement of a job's current authorization
 * can release its result: without it no receipt is written, and the foreign key rejects a completed job without a receipt.
 */
export function createJobCompleter(sql: Sql) {
  const complete = shareMove<Completion>(sql, COMPLETE_JOBS)
  return async (job: LeasedJob, completion: NewCompletion): Promise<Written> => {
    try {
      return await complete({ ...completion, job })
    } catch (cause) {
      if (cause instanceof Error && 'constraint' in cause && cause.constraint === RECEIPT_CONSTRAINT)
        throw new Error(`job ${job.id} has no open settlement ${completion.settlementId}`, { cause })
      throw cause
    }
  }
}

const COMPLETE_JOBS: SharedTransition<Completion> = {
  to: 'completed',
  name: 'complete_jobs',
  columns: [
    { name: 'authorization_id', type: 'uuid', of: ({ job }) => job.authorizationId },
    { name: 'has_permit', type: 'boolean', of: ({ job }) => job.authorization.gasSponsoring !== null },
    { name: 'settlement_id', type: 'uuid', of: ({ settlementId }) => settlementId },
    { name: 'transaction_hash', type: 'text', of: ({ transactionHash }) => transactionHash },
    { name: 'block_number', type: 'numeric', of: ({ blockNumber }) => blockNumber.toString() },
    { name: 'block_hash', type: 'text', of: ({ blockHash }) => blockHash },
    { name: 'gas_used', type: 'numeric', of: ({ gas }) => gas?.gasUsed.toString() ?? null },
    { name: 'effective_gas_price', type: 'numeric', of: ({ gas }) => gas?.effectiveGasPrice.toString() ?? null },
    { name: 'gas_cost', type: 'numeric', of: ({ gas }) => gas?.cost.toString() ?? null },
    { name: 'receipt_id', type: 'uuid', of: ({ receipt }) => receipt.id },
    { name: 'receipt', type: 'jsonb', of: ({ receipt }) => JSON.stringify(receipt) },
    { name: 'secret_id', type: 'text', of: ({ receiptSecretId }) => receiptSecretId },
    { name: 'payment_response', type: 'jsonb', of: ({ paymentResponse }) => JSON.stringify(paymentResponse) },
  ],
  set: [
    'receipt_id = free.receipt_id',
    'payment_response = free.payment_response',
    'finished_at = now()',
    'lease_expires_at = NULL',
    // It counts what is open or lost.
    'client_network = NULL',
  ],
  together: [
    `confirmed AS (
       UPDATE settlements SET state = 'confirmed', transaction_hash = moved.transaction_hash,
         block_number = moved.block_number, block_hash = moved.block_hash, finished_at = now(),
         gas_used = ${ofOwnKey('gas_used')}, effective_gas_price = ${ofOwnKey('effective_gas_price')},
         gas_cost = ${ofOwnKey('gas_cost')}
       FROM moved WHERE settlements.id = moved.settlement_id
         AND settlements.authorization_id = moved.authorization_id AND settlements.state = 'signed'
       RETURNING settlements.job_id)`,
    // The permit is used by now, or was not needed: the payer's next payment may rely on another one.
    `released AS (
       UPDATE authorizations SET permit_released_at = now()
       FROM moved WHERE authorizations.id = moved.authorization_id AND moved.has_permit AND permit_nonce IS NOT NULL)`,
    `receipted AS (
       INSERT INTO receipts (id, job_id, token_secret_id, body)
       SELECT moved.receipt_id, job_id, moved.secret_id, moved.receipt FROM confirmed JOIN moved ON moved.id = job_id)`,
  ],
}

/** What the transaction of a remote facilitator cost is not ours to store. */
function ofOwnKey(column: string): string {
  return `CASE WHEN settled_by = 'own_key' THEN moved.${column} END`
}
