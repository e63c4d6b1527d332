import type { UnknownSettlement } from '#shared/payment/settlement-search.ts'
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
