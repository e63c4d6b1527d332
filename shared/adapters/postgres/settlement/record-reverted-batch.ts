import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { Sql } from '../pool.ts'

/** Stores once what a batch cost that reverted as a whole. Returns whether this call stored it. */
export async function recordRevertedBatch(
  sql: Sql,
  transactionHash: string,
  { gasUsed, cost }: GasSpent,
): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'record_reverted_batch',
    text: `UPDATE settlement_batches SET reverted_at = now(), reverted_gas_used = $2, reverted_gas_cost = $3
     FROM settlement_transactions AS mined
     WHERE mined.hash = $1 AND settlement_batches.id = mined.batch_id AND reverted_at IS NULL`,
    values: [transactionHash, gasUsed.toString(), cost.toString()],
  })
  return rowCount === 1
}
