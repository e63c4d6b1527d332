import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'

export const jobStates = [
  'accepted',
  'generating',
  'generated',
  'settling',
  'completed',
  'failed',
  'settlement_failed',
  'review',
] as const

export type JobState = (typeof jobStates)[number]

/** Where a job comes from, for whoever works on it to say. Both are `null` for jobs from before they were kept. */
export interface RequestOrigin {
  readonly requestId: string | null
  /** W3C Trace Context; `null` when the request was not traced. */
  readonly traceparent: string | null
}

/** A paid request and everything that was fixed when it was accepted. */
export interface Job {
  readonly id: string
  readonly operation: string
  readonly publicModel: string
  readonly requestDigest: string
  /** `null` once no provider needs it any more. */
  readonly effectiveRequest: JsonValue | null
  readonly quotedMaximum: AtomicAmount
  readonly catalogVersion: string
  readonly terms: JsonValue
  readonly authorizationId: string
  readonly authorization: Authorization
  readonly stagedUploadId: string | null
  readonly acceptedAt: Date
  /** The request that was accepted last, in whose name it is worked on. */
  readonly origin: RequestOrigin
}

/** A job under a worker's lease. Every write names the fence; a stale one changes nothing and is told so. */
export interface ClaimedJob extends Job {
  readonly state: 'accepted' | 'generating' | 'generated' | 'settling'
  readonly fence: bigint
  /** Between when it was due and this claim, by PostgreSQL's clock; the time of a worker that was lost meanwhile is in it. */
  readonly waitedMs: number
  readonly sealed: SealedResult | null
  /** As this claim recorded it; `null` when it is to be read. */
  readonly settlement: StoredSettlement | null
}

/** A transaction as it was signed, for good: it may be mined as long as nothing else has used its account nonce. */
export interface StoredTransaction extends SignedTransaction {
  readonly accountNonce: bigint
}

/** What collects a job's charge, stored before anything of it is sent. */
export interface StoredSettlement {
  readonly settlementId: string
  /** Newest first; any of them may be the one on chain. */
  readonly transactions: readonly StoredTransaction[]
}

/** What a provider's success was turned into: the exact response text and the charge computed from usage. */
export interface SealedResult {
  readonly usage: Record<string, number>
  readonly chargeAmount: AtomicAmount
  readonly resultBody: string
  readonly resultDigest: string
}

/** The `PAYMENT-RESPONSE` of a settled job. `amount` is atomic USDC. */
export interface PaymentResponse {
  readonly success: true
  readonly transaction: string
  readonly network: string
  readonly payer: string
  readonly amount: string
}

/** How a job stands for the caller who waits on it. */
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
  /** Completed, and its result is past its retention. */
  | { state: 'expired'; receiptId: string; receiptSecretId: string }
  | { state: 'failed' | 'settlement_failed'; failureCode: ErrorCode }
  | { state: 'review' }
