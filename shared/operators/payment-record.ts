import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'

/** One row of a list of calls. Amounts are atomic USDC. */
export interface CallSummary {
  readonly jobId: string
  readonly requestId: string | null
  readonly operation: string
  readonly model: string
  readonly state: JobState
  readonly payer: string
  readonly quotedMaximum: bigint
  /** `null` until the result exists. */
  readonly charge: bigint | null
  readonly isOwed: boolean
  readonly failureCode: string | null
  readonly acceptedAt: Date
  readonly finishedAt: Date | null
}

/** A job with everything that the ledger knows about its money; no prompt, result, token or key. */
export interface PaymentRecord extends CallSummary {
  /** A capability: show only what identifies it. */
  readonly idempotencyKey: string
  /** Whether another request may use the key again. */
  readonly isKeyReleased: boolean
  /** Until when the quote of the key is good; `null` once the key is gone. */
  readonly challengeExpiresAt: Date | null
  readonly catalogVersion: string
  readonly usage: Readonly<Record<string, JsonValue>> | null
  readonly failureReason: string | null
  readonly isNewPayer: boolean
  readonly leasedUntil: Date | null
  readonly deferrals: number
  readonly deferredSince: Date | null
  readonly dueAt: Date
  readonly result: 'none' | 'stored' | 'expired'
  readonly resultExpiredAt: Date | null
  /** Oldest first, as all lists of this record. */
  readonly authorizations: readonly AuthorizationRecord[]
  readonly attempts: readonly AttemptRecord[]
  readonly settlements: readonly SettlementRecord[]
  readonly receipt: ReceiptRecord | null
  readonly media: readonly MediaRecord[]
  readonly upload: UploadRecord | null
  readonly uncharged: readonly UnchargedRecord[]
  readonly unknownSettlements: readonly UnknownSettlementRecord[]
  readonly resolutions: readonly ResolutionRecord[]
}

export interface AuthorizationRecord {
  readonly id: string
  readonly network: string
  readonly payTo: string
  readonly authorizedMaximum: bigint
  readonly deadline: Date
  readonly claimedAt: Date
  /** Whether it carries a permit that the service submits with the settlement. */
  readonly hasPermit: boolean
}

export interface AttemptRecord {
  readonly deployment: string
  readonly state: 'open' | 'succeeded' | 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  readonly reason: string | null
  readonly startedAt: Date
  readonly finishedAt: Date | null
}

export type SettlementState = 'signed' | 'confirmed' | 'reverted' | 'unproven' | 'lost' | 'surplus'

export interface SettlementRecord {
  readonly id: string
  readonly state: SettlementState
  readonly settledBy: 'own_key' | 'remote_facilitator'
  readonly network: string
  /** The key that sends it; of a remote facilitator, the address that the payer signed. */
  readonly facilitator: string
  readonly charge: bigint
  /** The transaction that decided it; `null` before one has. */
  readonly transaction: string | null
  readonly blockNumber: bigint | null
  readonly signedAt: Date
  readonly finishedAt: Date | null
  readonly finalizedAt: Date | null
  readonly failureReason: string | null
  /** Atomic USDC; `null` until its transactions are mined, and for remote facilitators. */
  readonly gasCost: bigint | null
  readonly transactions: readonly TransactionRecord[]
  /** The batch that it is in; `null` for a settlement that has a transaction of its own. */
  readonly batch: BatchRecord | null
}

/** Settlements that one transaction of the settlement contract makes together. */
export interface BatchRecord {
  readonly id: string
  readonly contract: string
  /** Number of settlements that were signed together; some may have moved to another batch since. */
  readonly size: number
  /** When it was given up, such as because every node refused its size. */
  readonly abandonedAt: Date | null
  /** The other settlements that are in it now, at most 100. */
  readonly others: readonly { readonly jobId: string; readonly state: SettlementState }[]
  /** Number of batches that this settlement was in before. */
  readonly earlierBatches: number
}

/** A transaction that was signed for a settlement; more than one are replacements of each other. */
export interface TransactionRecord {
  readonly hash: string
  /** The key that sent it; of a remote facilitator, the address that the payer signed. */
  readonly sender: string
  readonly accountNonce: bigint | null
  readonly signedAt: Date
}

export interface ReceiptRecord {
  readonly id: string
  readonly charge: bigint
  readonly transaction: string
  readonly settledAt: Date
  readonly issuedAt: Date
}

export interface MediaRecord {
  readonly contentType: string
  readonly bytes: bigint
  readonly expiresAt: Date
  readonly deletedAt: Date | null
}

export interface UploadRecord {
  readonly expiresAt: Date
  readonly erasedAt: Date | null
  readonly deletedAt: Date | null
}

/** Work that ended without a charge. */
export interface UnchargedRecord {
  readonly kind: UnchargedKind
  readonly amount: bigint
  readonly deployment: string | null
  readonly createdAt: Date
}

/** A settlement on chain that the ledger does not have. */
export interface UnknownSettlementRecord {
  readonly network: string
  readonly payer: string
  readonly nonce: bigint
  readonly amount: bigint
  readonly transaction: string
  readonly foundAt: Date
  readonly resolvedAt: Date | null
}

export interface ResolutionRecord {
  readonly id: string
  readonly item: ResolvableItem
  readonly jobId: string | null
  readonly outcome: ResolutionOutcome
  readonly amount: bigint
  readonly reason: string
  readonly operator: string
  readonly resolvedAt: Date
  readonly refundTransaction: string | null
}
