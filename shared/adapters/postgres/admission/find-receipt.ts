import type { ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import { CURRENT_RECEIPT, type CurrentReceiptRow, currentReceipt, HAS_RECEIPT } from '../current-receipt.ts'
import type { Sql } from '../pool.ts'

/**
 * Returns a receipt by its id with the current state of its settlement; the caller checks the token. Only an archived
 * receipt is read from the archive.
 */
export async function findReceipt(
  sql: Sql,
  archive: ReceiptArchive,
  receiptId: string,
): Promise<CurrentReceipt | null> {
  const { rows } = await sql.query<CurrentReceiptRow>({
    name: 'find_receipt',
    text: `SELECT ${CURRENT_RECEIPT}
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND ${HAS_RECEIPT}
     WHERE receipts.id = $1`,
    values: [receiptId],
  })
  const [row] = rows
  return row ? await currentReceipt(row, archive) : null
}
