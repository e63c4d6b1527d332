import type { Receipt } from '../wire/schemas.ts'

export interface ReceiptsQuery {
  /** Receipts from this time on; all by default. The service knows whole UTC days only. */
  readonly since?: Date | undefined
  /** `journal`: calls of this machine, without a request. `service`: all calls of the wallet, by its signature. */
  readonly source?: 'journal' | 'service' | undefined
  readonly signal?: AbortSignal | undefined
}

/** A call that was paid for. */
export interface ReceiptRecord {
  /** `null` for an answer without a receipt. */
  readonly receiptId: string | null
  readonly receiptToken: string | null
  readonly key: string
  /** When it was answered (journal) or issued (service). */
  readonly at: Date
  /** Atomic USDC. */
  readonly charged: bigint
  readonly operation: string
  readonly model: string | null
  /** As the caller named it; `null` from the service. */
  readonly purpose: string | null
  readonly transaction: string | null
  readonly verified: 'not_checked' | 'passed' | 'failed'
  /** What failed. */
  readonly problems: readonly string[]
  /** The signed document, as `GET /v1/receipts/{id}` returns it; `null` from the journal. */
  readonly receipt: Receipt | null
}
