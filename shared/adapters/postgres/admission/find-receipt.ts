import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import { CURRENT_SETTLEMENT, type CurrentReceiptRow, currentReceipt, HAS_RECEIPT } from '../current-receipt.ts'
import type { Sql } from '../pool.ts'

/** Returns a receipt by its id with the current state of its settlement; the caller checks the token. */
export async function findReceipt(sql: Sql, receiptId: string): Promise<CurrentReceipt | null> {
  const { rows } = await sql.query<CurrentReceiptRow>({
    name: 'find_receipt',
    text: `SELECT body, ${CURRENT_SETTLEMENT} AS settlement
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND ${HAS_RECEIPT}
     WHERE receipts.id = $1`,
    values: [receiptId],
  })
  const [row] = rows
  return row ? currentReceipt(row) : null
}
