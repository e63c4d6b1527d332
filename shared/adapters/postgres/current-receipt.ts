import { type CurrentReceipt, currentReceiptSchema } from '#shared/payment/receipt.ts'

/** The columns of a receipt's row that are sent to its payer. */
export interface CurrentReceiptRow {
  readonly body: object
  readonly settlement: object
}

/** The settlements that a receipt may have; each completed job has exactly one of them. */
export const HAS_RECEIPT = "settlements.state IN ('confirmed', 'lost')"

/** The current state of a receipt's settlement, as JSON. */
export const CURRENT_SETTLEMENT = `json_build_object(
  'state', CASE WHEN settlements.finalized_at IS NULL THEN settlements.state ELSE 'final' END,
  'transaction', settlements.transaction_hash, 'block_number', settlements.block_number::text)`

export function currentReceipt({ body, settlement }: CurrentReceiptRow): CurrentReceipt {
  return currentReceiptSchema.parse({ ...body, settlement })
}
