import type { ReviewEnding } from '#shared/jobs/job.ts'
import type { UnknownSettlement } from '#shared/jobs/unknown-settlement.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Sql } from './pool.ts'

/** Records a settlement that the ledger does not know, once for each payment. */
export async function recordUnknownSettlement(sql: Sql, settlement: UnknownSettlement): Promise<void> {
  const { authorization, found, idempotencyKey, requestId, jobId } = settlement
  const { network, payer, nonce, payTo, authorizedMaximum } = authorization
  await sql.query({
    name: 'record_unknown_settlement',
    text: `INSERT INTO unknown_settlements
       (network, payer, nonce, pay_to, authorized_maximum, transaction_hash, block_number, amount, idempotency_key,
        request_id, job_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
     ON CONFLICT (network, payer, nonce) DO NOTHING`,
    values: [
      network,
      payer,
      nonce.toString(),
      payTo,
      authorizedMaximum.toString(),
      found.transaction,
      found.blockNumber.toString(),
      found.amount.toString(),
      idempotencyKey,
      requestId,
      jobId,
    ],
  })
}

/** Returns how a person ended a settlement that the ledger does not know, or `null`. */
export async function findUnknownEnding(
  sql: Sql,
  { network, payer, nonce }: Pick<Authorization, 'network' | 'payer' | 'nonce'>,
): Promise<ReviewEnding | null> {
  const { rows } = await sql.query<{ outcome: ReviewEnding['outcome']; refund_transaction: string | null }>({
    name: 'find_unknown_ending',
    text: `SELECT outcome, refund_transaction FROM resolutions
     WHERE item = 'unknown_settlement' AND network = $1 AND payer = $2 AND nonce = $3`,
    values: [network, payer, nonce.toString()],
  })
  const [row] = rows
  if (!row) return null
  if (row.outcome !== 'refunded') return { outcome: row.outcome }
  if (row.refund_transaction === null) throw new Error('a refund has a transaction')
  return { outcome: row.outcome, transaction: row.refund_transaction }
}
