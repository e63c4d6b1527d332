import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { ExposureTerms } from '#shared/payment/exposure.ts'
import type { ExhaustedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { RequestOrigin } from '#shared/runtime/tracing.ts'

export interface NewJob {
  readonly idempotencyKey: string
  readonly operation: string
  readonly publicModel: string
  readonly requestDigest: string
  /** JSON in UTF-8; bytes, since inline images make it tens of megabytes long. */
  readonly effectiveJson: Uint8Array
  readonly quote: Quote<JsonValue>
  readonly authorization: Authorization
  /** SHA-256 of the challenge token that the authorization is accepted with, and can be presented again with. */
  readonly challengeTokenSha256: string
  /** `null` for requests without an upload. */
  readonly stagedUpload: StagedUpload | null
  readonly exposure: ExposureTerms
  readonly origin: RequestOrigin
  /** The caller's network, of which losses are counted together: an IPv4 /24 or an IPv6 /48. */
  readonly clientNetwork: string
}

export type Acceptance =
  | { outcome: 'accepted'; jobId: string }
  /** The authorization pays for the stored result of a job whose settlement failed; the upload is not needed. */
  | { outcome: 'settles_again'; jobId: string }
  /** Another request with the same key, payer and digest came first. */
  | { outcome: 'exists'; jobId: string }
  | { outcome: 'other_request' }
  | { outcome: 'authorization_already_used' }
  | { outcome: 'permit_already_used' }
  /** The payment has a value that the ledger cannot store. Nothing was written. */
  | { outcome: 'unstorable'; sqlState: string }
  /**
   * Open work exceeds the payer's known funds. `settlingNonces` are the nonces whose use a new funds reading should
   * check.
   */
  | { outcome: 'exceeds_funds'; openTotal: AtomicAmount; settlingNonces: readonly bigint[] }
  | { outcome: 'exceeds_open_limit'; openTotal: AtomicAmount }
  /** An earlier call of the payer was completed but its charge could not be settled. */
  | { outcome: 'unpaid_debt'; idempotencyKey: string; chargeAmount: AtomicAmount }
  /** Too much of the payer's earlier work ended without a charge. */
  | { outcome: 'uncharged_work_limit'; exhausted: ExhaustedBudget }
  /** More is open and lost than what the payer has settled so far allows. */
  | {
      outcome: 'exceeds_trust'
      open: AtomicAmount
      lost: AtomicAmount
      allowed: AtomicAmount
      retryAfterSeconds: number
    }
  /** Settlements of this job or payer reverted lately; the withheld result can be paid for after the pause. */
  | { outcome: 'settlement_retry_limit'; retryAfterSeconds: number }
  /** Payments that their payers have not covered have too much open and lost, from one network or all together. */
  | { outcome: 'new_payer_limit'; limit: 'network' | 'all'; retryAfterSeconds: number }

/** Thrown to roll back the claim of a payment that cannot be accepted; never leaves this folder. */
export class AcceptanceRefused extends Error {
  readonly acceptance: Acceptance

  constructor(acceptance: Acceptance) {
    super(acceptance.outcome)
    this.acceptance = acceptance
  }
}
