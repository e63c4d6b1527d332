import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { RequestOrigin } from '#shared/runtime/tracing.ts'

export const JOB_STATES = [
  'accepted',
  'generating',
  'generated',
  'settling',
  'completed',
  'failed',
  'settlement_failed',
  'review',
] as const

export type JobState = (typeof JOB_STATES)[number]

/** A paid request and everything that was fixed when it was accepted. */
export interface Job {
  readonly id: string
  readonly operation: string
  readonly publicModel: string
  readonly requestDigest: string
  /** `null` once no provider needs it, and in a claim of a job whose request is long (`readEffectiveRequest`). */
  readonly effectiveRequest: JsonValue | null
  readonly quotedMaximum: AtomicAmount
  readonly catalogVersion: string
  readonly terms: JsonValue
  readonly authorizationId: string
  readonly authorization: Authorization
  readonly stagedUploadId: string | null
  readonly acceptedAt: Date
  /** The latest accepted request for this job. */
  readonly origin: RequestOrigin
}

/**
 * A job under a worker's lease. Every write carries the fence; with a stale fence it changes nothing and returns
 * `stale`.
 */
export interface LeasedJob extends Job {
  readonly state: 'accepted' | 'generating' | 'generated' | 'settling'
  readonly fence: bigint
  /**
   * Time from when the job was due to this claim, by PostgreSQL's clock; includes the lease of a worker that was lost.
   */
  readonly waitedMs: number
  /** Time from the first deferral in this state to this claim; 0 for a job that was not deferred in it. */
  readonly deferredMs: number
  /** How long only the payment itself has prevented its settlement; 0 when anything else has. */
  readonly paymentBlockedMs: number
  /** The length of the effective request; 0 once no provider needs it. */
  readonly requestBytes: number
  readonly sealed: SealedResult | null
  /** When the hosted media of the sealed result expire, the newest if it ran twice; `null` without any. */
  readonly mediaExpireAt: Date | null
  /** The settlement as this claim recorded it; `null` when it must be read. */
  readonly settlement: StoredSettlement | null
  /** Whether the payer had no history when the job was accepted. */
  readonly isNewPayer: boolean
}

/** A signed transaction, stored permanently: it may be mined until another one has used its account nonce. */
export interface StoredTransaction extends SignedTransaction {
  /** The settlement key that sends it, in lower case. */
  readonly sender: `0x${string}`
  readonly accountNonce: bigint
}

/** The transactions that settle a job's charge, stored before any of them is sent. */
export interface StoredSettlement {
  readonly settlementId: string
  /** The batch that it is in; `null` for a settlement that has a transaction of its own. */
  readonly batch: SettlementBatch | null
  /** Newest first; any of them may be the one on chain. */
  readonly transactions: readonly StoredTransaction[]
}

/** Settlements that one transaction of the settlement contract makes together. */
export interface SettlementBatch {
  readonly id: string
  /** Number of settlements that were signed together. */
  readonly size: number
}

/** The charge for a provider's successful answer, computed from its usage, and the digest of the response text. */
export interface SealedResult {
  readonly usage: Record<string, number>
  readonly chargeAmount: AtomicAmount
  readonly resultDigest: string
}

/** The same with the exact response text, which only the store keeps: a settlement needs no megabytes of Base64. */
export interface NewResult extends SealedResult {
  readonly resultBody: string
}

/** The `PAYMENT-RESPONSE` of a settled job. `amount` is atomic USDC. */
export interface PaymentResponse {
  readonly success: true
  readonly transaction: string
  readonly network: string
  readonly payer: string
  readonly amount: string
}

/** `stale` means that another worker has claimed the job since: stop immediately, write nothing. */
export type Written = 'written' | 'stale'

export interface Failure {
  readonly code: ErrorCode
  /** For operators, without prompt, audio, transcript or key. */
  readonly reason: string
}

/** The measured usage of a call, with its charge under the terms of the quote and the vendor's bill. */
export interface MeasuredWork {
  readonly usage: NewResult['usage']
  readonly charge: AtomicAmount
  /** At the prices of its deployment; `null` when they are not known. */
  readonly vendorCost: AtomicAmount | null
}

/**
 * How a job ends uncharged. Its uncharged work is what was measured, or else the authorized maximum, when the vendor worked
 * or may have worked (`failed_empty`, `failed_ambiguous`), and the minimum charge when the code's status is
 * 400, with or without a provider call. Any other failure is the service's or the vendor's.
 */
export type JobFailure = Failure & {
  readonly attempt: 'none' | 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  /** Where it is known: what the vendor bills for, and the charge that this would have had. */
  readonly measured?: MeasuredWork
  /** Whether the service itself lost an ambiguous call. Such calls do not count against the payer's budget. */
  readonly isLost?: true
}

/** How a person ended a review, as its caller is answered. */
export type ReviewEnding =
  | { readonly outcome: 'refunded'; readonly transaction: string }
  | { readonly outcome: 'paid_outside' | 'written_off' }

/** A job's outcome for the waiting caller. */
export type JobOutcome =
  | { state: 'accepted' | 'generating' | 'generated' | 'settling' }
  | {
      state: 'completed'
      resultBody: string
      catalogVersion: string
      receiptId: string
      receiptSecretId: string
      receiptIssuedAt: Date
      paymentResponse: PaymentResponse
    }
  /** Completed, with a result past its retention. */
  | { state: 'expired'; receiptId: string }
  | { state: 'failed' | 'settlement_failed'; failureCode: ErrorCode }
  | { state: 'review' }
  /** Ended by a person after a review. */
  | ({ state: 'resolved' } & ReviewEnding)
  /** Returned after a review without a charge. */
  | { state: 're_served'; resultBody: string; catalogVersion: string }
  /** The same, with a result past its retention. */
  | { state: 're_serving_ended' }
