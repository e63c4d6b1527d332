import { type CurrentReceipt, currentReceiptSchema } from '#shared/payment/receipt.ts'
import type { Sql } from '../pool.ts'

/** Returns a receipt by its id with the current state of its settlement; the caller checks the token. */
export async function findReceipt(sql: Sql, receiptId: string): Promise<CurrentReceipt | null> {
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
  return row ? currentReceiptSchema.parse({ ...row.body, settlement: row.settlement }) : null
}
