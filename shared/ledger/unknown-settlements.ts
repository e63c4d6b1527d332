import type { ReviewEnding } from '#shared/jobs/job.ts'
import type { UnknownSettlement } from '#shared/jobs/unknown-settlement.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Parameter } from './move-job.ts'
import type { Sql } from './pool.ts'
import { readFirst } from './read-rows.ts'

/**
 * Whether the payment of an unknown settlement, a row of `unknown`, is the one that a job in review has: then it is part of
 * that review. By the payment, since an API that records it knows of no job.
 */
export const IS_IN_REVIEW = `EXISTS (
    SELECT FROM authorizations AS payment JOIN jobs ON jobs.authorization_id = payment.id
    WHERE payment.network = unknown.network AND payment.payer = unknown.payer AND payment.nonce = unknown.nonce
      AND jobs.state = 'review')`

/** Records a settlement that the ledger does not know, once for each payment. */
export async function recordUnknownSettlement(sql: Sql, settlement: UnknownSettlement): Promise<void> {
  const values: unknown[] = []
  const text = insertUnknownSettlement(settlement, (value) => `$${values.push(value)}`)
  await sql.query({ name: 'record_unknown_settlement', text, values })
}

/** Returns the statement that records it. `from` makes it a part of a transition, written for the job that moved. */
export function insertUnknownSettlement(settlement: UnknownSettlement, parameter: Parameter, from = ''): string {
  const { authorization, found, idempotencyKey, requestId, jobId } = settlement
  const { network, payer, nonce, payTo, authorizedMaximum } = authorization
  return `INSERT INTO unknown_settlements
     (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number, amount, idempotency_key,
      request_id, job_id)
   SELECT ${parameter(network)}, ${parameter(payer)}, ${parameter(nonce.toString())}::numeric, ${parameter(payTo)},
     ${parameter(authorizedMaximum.toString())}::numeric, ${parameter(found.transaction)},
     ${parameter(found.blockNumber.toString())}::numeric, ${parameter(found.amount.toString())}::numeric,
     ${parameter(idempotencyKey)}, ${parameter(requestId)}, ${parameter(jobId)}::uuid ${from}
   ON CONFLICT (network, payer, nonce) DO NOTHING`
}

/** Returns how a person ended a settlement that the ledger does not know, or `null`. */
export async function findUnknownEnding(
  sql: Sql,
  { network, payer, nonce }: Pick<Authorization, 'network' | 'payer' | 'nonce'>,
): Promise<ReviewEnding | null> {
  const row = await readFirst<{ outcome: ReviewEnding['outcome']; refund_transaction: string | null }>(sql, {
    name: 'find_unknown_ending',
    text: `SELECT outcome, refund_transaction FROM resolutions
     WHERE item = 'unknown_settlement' AND network = $1 AND payer = $2 AND nonce = $3`,
    values: [network, payer, nonce.toString()],
  })
  if (!row) return null
  if (row.outcome !== 'refunded') return { outcome: row.outcome }
  if (row.refund_transaction === null) throw new Error('a refund has a transaction')
  return { outcome: row.outcome, transaction: row.refund_transaction }
}
