import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'

/** The transaction that settled a payment, and what it transferred. */
export interface FoundSettlement {
  readonly transaction: `0x${string}`
  readonly blockNumber: bigint
  readonly amount: AtomicAmount
}

/** A settlement that the ledger does not know, for a person to refund or explain. */
export interface UnknownSettlement {
  readonly authorization: Authorization
  readonly found: FoundSettlement
  /** The key under which its caller presented it. */
  readonly idempotencyKey: string | null
  readonly requestId: string | null
  readonly jobId: string | null
}
