import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { Media, ServedMedia } from '#shared/media/media.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Exposure } from '#shared/payment/exposure.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { PayerFunds } from '#shared/payment/payer-funds.ts'
import type { PresentReceipt, Receipt } from '#shared/payment/receipt.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type {
  ClaimedJob,
  Job,
  JobOutcome,
  JobState,
  PaymentResponse,
  RequestOrigin,
  SealedResult,
  StoredSettlement,
} from './job.ts'

export interface KeyBindingRequest {
  readonly idempotencyKey: string
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly lifetimeSeconds: number
}

/** `quote` is the one the key was first challenged with, kept until its challenge expires. */
export type KeyBinding = { outcome: 'bound'; quote: Quote<JsonValue>; expiresAt: Date } | { outcome: 'other_request' }

/** What a key is bound to at present: until its challenge expires, or for good once a job has it. */
export interface PresentBinding {
  readonly requestDigest: string
  readonly quote: Quote<JsonValue>
  readonly expiresAt: Date
  /** Whether the challenge still lives; a key that a job has stays bound after it. */
  readonly isLive: boolean
}

/** What a key and an authorization already stand for, read in one snapshot. */
export interface PriorWork {
  /** The job that the key is bound to for good. */
  readonly holder: { readonly jobId: string; readonly payer: string; readonly state: JobState } | null
  /** The job that the authorization's nonce is claimed for. */
  readonly claimedFor: string | null
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
  /** `null` for requests without an upload. */
  readonly stagedUpload: StagedUpload | null
  readonly exposure: ExposureTerms
  readonly origin: RequestOrigin
}

/** What decides whether a verified payment fits beside its payer's other open work. */
export interface ExposureTerms {
  /** The payer's open maxima together may not pass this, whatever he holds. */
  readonly maximumOpen: AtomicAmount
  /** Whether the payment counts on a permit of its own and not on the allowance. */
  readonly needsPermit: boolean
  /** How long ago the payment's verification began: what settled since may have spent what it saw. */
  readonly verifiedMsAgo: number
  /** `null` until they are needed, which is when the payer has anything else open. */
  readonly funds: PayerFunds | null
}

export type Acceptance =
  | { outcome: 'accepted'; jobId: string }
  /** The stored result of a job whose settlement failed is paid for by this authorization; the upload is not needed. */
  | { outcome: 'settles_again'; jobId: string }
  /** Another request with the same key, payer and digest came first. */
  | { outcome: 'exists'; jobId: string }
  | { outcome: 'other_request' }
  | { outcome: 'authorization_already_used' }
  | { outcome: 'permit_already_used' }
  /** More is open than the payer is known to hold. `settlingNonces` are those that a reading of his funds should ask for. */
  | { outcome: 'exceeds_funds'; openTotal: AtomicAmount; settlingNonces: readonly bigint[] }
  | { outcome: 'exceeds_open_limit'; openTotal: AtomicAmount }
  /** An earlier call of the payer was done and could not be collected. */
  | { outcome: 'unpaid_debt'; idempotencyKey: string; chargeAmount: AtomicAmount }

/** What the API may do to the ledger. */
export interface AdmissionStore {
  bindKey(request: KeyBindingRequest): Promise<KeyBinding>
  /** `null` for a key that is free to be bound. */
  findBinding(idempotencyKey: string): Promise<PresentBinding | null>
  findPriorWork(idempotencyKey: string, authorization: Authorization): Promise<PriorWork>
  /** Whether the key has a job, whoever paid for it, other than one that failed and would be run again. */
  hasJob(idempotencyKey: string): Promise<boolean>
  /** Authorization and job in one transaction; the row is the outbox. */
  acceptJob(job: NewJob): Promise<Acceptance>
  markEnqueued(jobId: string): Promise<void>
  readOutcomes(jobIds: readonly string[]): Promise<Map<string, JobOutcome>>
  /** How long the oldest accepted job of each operation has waited for a worker, in milliseconds; none for an empty queue. */
  readQueueAges(): Promise<ReadonlyMap<string, number>>
  findReceipt(receiptId: string): Promise<PresentReceipt | null>
  /** Media that may be served now, by the hash of its token. */
  findMedia(tokenSha256: string): Promise<ServedMedia | null>
}

/** `stale` means that another worker holds the job now: stop at once, write nothing. */
export type Written = 'written' | 'stale'

export interface Failure {
  readonly code: ErrorCode
  /** For operators, without prompt, audio, transcript or key. */
  readonly reason: string
}

/** What the sweepers need to know to enqueue a job. */
export type DueJob = Pick<Job, 'id' | 'operation'> & { readonly state: JobState }

/** What a worker may do to a job it holds. Every write is fenced. */
export interface ExecutionStore {
  claimJob(jobId: string, leaseMs: number): Promise<ClaimedJob | null>
  renewLease(job: ClaimedJob, leaseMs: number): Promise<Written>
  /** Gives the job back, to be run again no earlier than `delayMs` from now. */
  releaseJob(job: ClaimedJob, delayMs: number): Promise<Written>
  /** Gives the job up to the worker that it is enqueued for next, under a higher fence; `null` when it cannot be given up. */
  handOverJob(job: ClaimedJob): Promise<ClaimedJob | null>
  openStagedUpload(stagedUploadId: string): Promise<StagedUpload | null>
  /**
   * Returns the payer's other work that has a claim on their funds first, accepted before this job or under way, with the charges
   * that settled since `funds` were read or, without a reading, within the last `verifiedMsAgo` milliseconds.
   */
  readExposureAhead(job: ClaimedJob, since: Pick<ExposureTerms, 'funds' | 'verifiedMsAgo'>): Promise<Exposure>
  /**
   * accepted → generating, with the attempt's row; or, after a definite failure, the next deployment's attempt while
   * generating. `failed` ends the attempt before it.
   */
  startAttempt(
    job: ClaimedJob,
    deployment: string,
    failed: { attemptId: string; reason: string } | null,
  ): Promise<{ written: Written; attemptId: string }>
  /** generating → generated: result, usage and charge; the upload's data key is erased with them. */
  sealResult(job: ClaimedJob, attemptId: string, sealed: SealedResult, media: Media | null): Promise<Written>
  /** accepted or generating → failed, uncharged. A definite failure erases the upload's data key. */
  failJob(
    job: ClaimedJob,
    failure: Failure & { attempt: 'none' | 'failed_definite' | 'failed_ambiguous' },
  ): Promise<Written>
  /** generated → settling: takes the next account nonce and stores the signed transaction, which is given, before anyone sends it. */
  recordSettlement(
    job: ClaimedJob,
    settlement: {
      chargeAmount: AtomicAmount
      minimumAccountNonce: bigint
      sign(accountNonce: bigint): Promise<SignedTransaction>
    },
  ): Promise<StoredSettlement | 'stale'>
  readSettlement(job: ClaimedJob): Promise<StoredSettlement>
  /** settling, still: a settlement whose account nonce somebody else used up is signed for the next one. */
  renewSettlement(
    job: ClaimedJob,
    renewal: {
      settlementId: string
      usedAccountNonce: bigint
      minimumAccountNonce: bigint
      sign(accountNonce: bigint): Promise<SignedTransaction>
    },
  ): Promise<Written>
  /** settling → completed: settlement, receipt and payment response in one transaction; wakes the waiting API. */
  completeJob(
    job: ClaimedJob,
    completion: {
      settlementId: string
      transactionHash: string
      blockNumber: bigint
      blockHash: string
      receipt: Receipt
      receiptSecretId: string
      paymentResponse: PaymentResponse
    },
  ): Promise<Written>
  /** generated or settling → settlement_failed: the result is withheld. */
  failSettlement(job: ClaimedJob, failure: Failure): Promise<Written>
  /** settling → review. */
  markForReview(job: ClaimedJob, reason: string): Promise<Written>
  /** Jobs in these states that nobody works on and nobody enqueued lately; marks them enqueued. */
  takeDueJobs(states: readonly JobState[], limit: number): Promise<readonly DueJob[]>
  /** Object keys of uploads that may be deleted; their data keys are erased by this call. */
  eraseExpiredUploads(limit: number): Promise<readonly string[]>
  markUploadsDeleted(objectKeys: readonly string[]): Promise<void>
  findExpiredMedia(limit: number): Promise<readonly string[]>
  markMediaDeleted(objectKeys: readonly string[]): Promise<void>
  /** Erases results whose retention is over; receipts and payments stay. Gives the number of results erased. */
  expireResults(retentionMs: number, limit: number): Promise<number>
  /** Forgets keys that were challenged long ago and never paid for. Gives their number. */
  forgetExpiredChallenges(limit: number): Promise<number>
}
