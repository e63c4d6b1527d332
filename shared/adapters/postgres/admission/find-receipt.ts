import { type PresentReceipt, presentReceiptSchema } from '#shared/payment/receipt.ts'
import type { Sql } from '../pool.ts'

/** A receipt by its id, and where its settlement stands now; the caller has checked the token. */
export async function findReceipt(sql: Sql, receiptId: string): Promise<PresentReceipt | null> {
  const { rows } = await sql.query<{ body: object; settlement: object }>(
    `SELECT body, json_build_object(
       'state', CASE WHEN finalized_at IS NULL THEN state ELSE 'final' END,
       'transaction', transaction_hash, 'block_number', block_number::text) AS settlement
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND state IN ('confirmed', 'lost')
     WHERE receipts.id = $1`,
    [receiptId],
  )
  const [row] = rows
  return row ? presentReceiptSchema.parse({ ...row.body, settlement: row.settlement }) : null
}
