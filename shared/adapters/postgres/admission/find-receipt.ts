import { type PresentReceipt, presentReceiptSchema } from '#shared/payment/receipt.ts'
import type { Sql } from '../pool.ts'

/** Returns a receipt by its id with the present state of its settlement; the caller checks the token. */
export async function findReceipt(sql: Sql, receiptId: string): Promise<PresentReceipt | null> {
  const { rows } = await sql.query<{ body: object; settlement: object }>({
    name: 'find_receipt',
    text: `SELECT body, json_build_object(
       'state', CASE WHEN finalized_at IS NULL THEN state ELSE 'final' END,
       'transaction', transaction_hash, 'block_number', block_number::text) AS settlement
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND state IN ('confirmed', 'lost')
     WHERE receipts.id = $1`,
    values: [receiptId],
  })
  const [row] = rows
  return row ? presentReceiptSchema.parse({ ...row.body, settlement: row.settlement }) : null
}
