import type { RecordedObject } from '#shared/archive/archived-object.ts'
import type { ReceiptArchive } from '#shared/archive/receipt-archive.ts'
import { type CurrentReceipt, currentReceiptSchema } from '#shared/payment/receipt.ts'

/** The columns of a receipt's row that are sent to its payer. */
export interface CurrentReceiptRow {
  readonly receipt_id: string
  readonly body: object
  readonly settlement: object
  /** The object that holds the whole body of an archived receipt. */
  readonly archived: RecordedObject | null
}

/** The settlements that a receipt may have; each completed job has exactly one of them. */
export const HAS_RECEIPT = "settlements.state IN ('confirmed', 'lost')"

/** The current state of a receipt's settlement, as JSON. */
const CURRENT_SETTLEMENT = `json_build_object(
  'state', CASE WHEN settlements.finalized_at IS NULL THEN settlements.state ELSE 'final' END,
  'transaction', settlements.transaction_hash, 'block_number', settlements.block_number::text)`

/** The columns of `CurrentReceiptRow`, over the rows `receipts` and `settlements`. */
export const CURRENT_RECEIPT = `receipts.id AS receipt_id, receipts.body, ${CURRENT_SETTLEMENT} AS settlement,
  (SELECT json_build_object('key', objects.key, 'sha256', objects.sha256) FROM archive_objects AS objects
   WHERE objects.id = receipts.archive_object) AS archived`

/** Returns a receipt as it was issued, wherever its body is. */
export async function currentReceipt(row: CurrentReceiptRow, archive: ReceiptArchive): Promise<CurrentReceipt> {
  const { receipt_id: receiptId, archived, settlement } = row
  const body = archived === null ? row.body : await archive.readReceipt(archived, receiptId)
  return currentReceiptSchema.parse({ ...body, settlement })
}
