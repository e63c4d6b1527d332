import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ServedMedia } from '#shared/media/media.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { MeasuredAudio } from '#shared/operations/operation.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import type { PayerProvenance } from '#shared/payment/payer-provenance.ts'
import type { CurrentReceipt } from '#shared/payment/receipt.ts'
import type { UnknownSettlement } from '#shared/payment/settlement-search.ts'
import type { ExhaustedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { RequestOrigin } from '#shared/runtime/tracing.ts'
import type { JobOutcome, JobState, ReviewEnding } from './job.ts'

export interface KeyBindingRequest {
  readonly idempotencyKey: string
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly lifetimeSeconds: number
  /** What the caller says of a recording that was not sent yet; `null` or absent for a request that was read completely. */
  readonly claimedAudio?: MeasuredAudio | null
}

/** `quote` is the one of the key's first challenge, kept until that challenge expires. */
export type KeyBinding = { outcome: 'bound'; quote: Quote<JsonValue>; expiresAt: Date } | { outcome: 'other_request' }

/**
 * The request a key is bound to: until its challenge expires or, with a job that did not end uncharged, permanently.
 */
export interface CurrentBinding {
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly expiresAt: Date
  /** Whether the challenge has not expired; a key with a job stays bound afterwards. */
  readonly isLive: boolean
  /** `null` for a key that was bound by a complete request, and once a job is accepted under it. */
  readonly claim: ClaimOfBinding | null
}

/** What the caller said of a recording when the key was bound. */
export interface ClaimOfBinding {
  readonly audio: MeasuredAudio
  /** Whether another recording was sent since, and the key is bound to that. Until then it may be. */
  readonly isReplaced: boolean
}

/** The jobs that a key and an authorization already belong to, read in one snapshot. */
export interface PriorWork {
  /**
   * The job that the key is bound to. `isReleasable`: uncharged, and its challenge has expired, so others may take it.
   */
  readonly holder: {
    readonly jobId: string
    readonly payer: string
    readonly state: JobState
    readonly isReleasable: boolean
  } | null
  /** The job that claimed the authorization's nonce, and whether it was accepted with this challenge token. */
  readonly claim: { readonly jobId: string; readonly hasSameToken: boolean } | null
}

/** A payment as it was presented. */
export interface PresentedClaim {
  readonly authorization: Authorization
  /** SHA-256 of the challenge token, which unlike the signature never appears on chain. */
  readonly challengeTokenSha256: string | null
}

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
  readonly challengeTokenSha256: string | null
  /** `null` for requests without an upload. */
  readonly stagedUpload: StagedUpload | null
  readonly exposure: ExposureTerms
  readonly origin: RequestOrigin
  /** The caller's network, of which losses are counted together: an IPv4 /24 or an IPv6 /48. */
  readonly clientNetwork: string
}

/** Input to the decision whether a payer can afford a verified payment in addition to their unfinished work. */
export interface ExposureTerms {
  /** Upper limit on the sum of the payer's open maxima, whatever their balance. */
  readonly maximumOpen: AtomicAmount
  /** Whether the payment relies on a permit of exactly its maximum instead of the allowance. */
  readonly needsPermit: boolean
  /** Time since the payment's verification began: charges settled since may have spent the funds that it saw. */
  readonly verifiedMsAgo: number
  /** `null` until they are needed, which is when the payer has other unfinished work. */
  readonly funds: PayerFunds | null
  /** What a payer may have open who has settled nothing: the highest price of one call. */
  readonly highestPrice: AtomicAmount
  /** `null` until it is needed, which is when what the payer has settled does not cover the payment. */
  readonly provenance: PayerProvenance | null
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
  /** Where this much money of the payer comes from is not known, and what they have settled does not cover it. */
  | { outcome: 'unproven_funds'; needed: AtomicAmount }
  /** The payment needs money that came from a payer who owes for an earlier call. */
  | { outcome: 'sender_owes'; needed: AtomicAmount; sender: string; debt: AtomicAmount }
  /** Settlements of this job or payer reverted lately; the withheld result can be paid for after the pause. */
  | { outcome: 'settlement_retry_limit'; retryAfterSeconds: number }
  /** Payments that their payers have not covered have too much open and lost, from one network or all together. */
  | { outcome: 'new_payer_limit'; limit: 'network' | 'all'; retryAfterSeconds: number }

/** A call that pays with a permit. */
export interface PermitCall {
  readonly payer: string
  readonly idempotencyKey: string
}

/** The API's access to the ledger: keys, acceptance, and what callers read about their jobs. */
export interface AdmissionStore {
  bindKey(request: KeyBindingRequest): Promise<KeyBinding>
  /**
   * Binds the key to a request whose recording was inspected, in place of the claim with `claimedDigest`. Changes nothing
   * when the key is no longer bound by that claim, or has a job.
   */
  replaceClaim(request: KeyBindingRequest, claimedDigest: string): Promise<void>
  /** Returns `null` for a key that is free. */
  findBinding(idempotencyKey: string): Promise<CurrentBinding | null>
  findPriorWork(idempotencyKey: string, payment: PresentedClaim): Promise<PriorWork>
  /** Returns whether the key has a job, of any payer, other than a failed one that would be run again. */
  hasJob(idempotencyKey: string): Promise<boolean>
  /** Returns the payer's oldest job that a worker has not finished, or `null`. */
  findOpenJob(payer: string): Promise<string | null>
  /**
   * Gives a call the payer's turn to sign a permit, unless another call has it or a job of the payer is open. Returns
   * whether it has it.
   */
  takePermitTurn(call: PermitCall, seconds: number): Promise<boolean>
  /** Returns the key of the call that has the payer's turn, or `null`. */
  findPermitTurn(payer: string): Promise<string | null>
  endPermitTurn(call: PermitCall): Promise<void>
  /** Writes authorization and job in one transaction; the job's row is the outbox. */
  acceptJob(job: NewJob): Promise<Acceptance>
  /** Records a settlement that the ledger does not know, once for each payment, for a person. */
  recordUnknownSettlement(settlement: UnknownSettlement): Promise<void>
  /** Returns how a person ended a settlement that the ledger does not know, or `null`. */
  findUnknownEnding(payment: Pick<Authorization, 'network' | 'payer' | 'nonce'>): Promise<ReviewEnding | null>
  /** Records that the queue has the job, so that the sweeper does not enqueue it again. */
  markEnqueued(jobId: string): Promise<void>
  readOutcomes(jobIds: readonly string[]): Promise<Map<string, JobOutcome>>
  /**
   * Returns by operation how long its oldest accepted job has waited for a worker, in milliseconds; no entry for an
   * empty queue.
   */
  readQueueAges(): Promise<ReadonlyMap<string, number>>
  findReceipt(receiptId: string): Promise<CurrentReceipt | null>
  /** Finds media that may be served now, by the hash of its token. */
  findMedia(tokenSha256: string): Promise<ServedMedia | null>
}
