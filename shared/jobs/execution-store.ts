import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Media } from '#shared/media/media.ts'
import type { StagedUpload } from '#shared/media/staged-upload.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure } from '#shared/payment/exposure.ts'
import type { ExhaustedBudget } from '#shared/payment/uncharged-budget.ts'
import type { ExposureTerms } from './admission-store.ts'
import type { ClaimedJob, Failure, Job, JobState, NewResult, Written } from './job.ts'
import type { QueueName } from './job-queue.ts'

/** The part of a job that the sweepers need in order to enqueue it. */
export type DueJob = Pick<Job, 'id' | 'operation'> & { readonly state: JobState }

/**
 * How a job ends uncharged. Its uncharged work is the authorized maximum when the vendor worked or may have worked
 * (`failed_empty`, `failed_ambiguous`), and the minimum charge when the code says that the caller sent what cannot be
 * served (`isCallersDoing`), with or without a provider call. Any other failure is the service's or the vendor's.
 */
export type JobFailure = Failure & {
  readonly attempt: 'none' | 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  /** The charge that the measured usage would have had, where the vendor reported usage. */
  readonly measuredCharge?: AtomicAmount
  /** Whether the service itself lost an ambiguous call. Such calls do not count against the payer's budget. */
  readonly isLost?: true
}

/** A worker's access to jobs, from the claim to the stored result. Every write to a claimed job is fenced. */
export interface ExecutionStore {
  /** Takes the job's lease; `null` when the job is finished, not due, or leased by another worker. */
  claimJob(jobId: string, leaseMs: number): Promise<ClaimedJob | null>
  /** Extends the leases of claimed jobs; returns the ids of those whose lease is lost. */
  renewLeases(jobs: readonly ClaimedJob[], leaseMs: number): Promise<ReadonlySet<string>>
  /** Ends the lease; the job may run again immediately. */
  releaseJob(job: ClaimedJob): Promise<Written>
  /**
   * Ends the lease; the job runs again no earlier than `delayMs` from now, and later with each further deferral.
   * `isPaymentBlocked`: only the payment itself prevents its settlement. Default false.
   */
  deferJob(job: ClaimedJob, delayMs: number, isPaymentBlocked?: boolean): Promise<Written>
  /** Makes a job that was deferred under this claim due, for the worker that it is enqueued for next. */
  wakeJob(job: ClaimedJob): Promise<Written>
  /**
   * Ends the lease and raises the fence, for the worker that the job is enqueued for next; `null` when that is not
   * possible.
   */
  handOverJob(job: ClaimedJob): Promise<ClaimedJob | null>
  /**
   * Returns jobs in these states that are due, not leased and not enqueued recently; marks them enqueued. Leaves out
   * those of `pausedQueues`.
   */
  takeDueJobs(
    states: readonly JobState[],
    limit: number,
    pausedQueues?: ReadonlySet<QueueName>,
  ): Promise<readonly DueJob[]>
  /**
   * Returns the effective request of a claimed job, which the claim leaves out when it is long: a worker first reserves
   * the memory for it. `null` when the job has none any more.
   */
  readEffectiveRequest(jobId: string): Promise<JsonValue | null>
  openStagedUpload(stagedUploadId: string): Promise<StagedUpload | null>
  /**
   * Returns the payer's other work that has a prior claim on their funds (accepted before this job, or already being
   * worked on), with the charges that settled since `funds` were read or, without a reading, within the last
   * `verifiedMsAgo` milliseconds. `owes`: a result is withheld until they pay for it. `hasPaid`: a charge of theirs was
   * settled, at any time. `exhausted`: their uncharged work, once it has reached the budget.
   */
  readExposureAhead(
    job: ClaimedJob,
    since: Pick<ExposureTerms, 'funds' | 'verifiedMsAgo'>,
  ): Promise<
    Exposure & { readonly owes: boolean; readonly hasPaid: boolean; readonly exhausted: ExhaustedBudget | null }
  >
  /**
   * Moves accepted → generating, with the attempt's row; or, after a definite failure, the next deployment's attempt
   * while generating. `failed` ends the previous attempt.
   */
  startAttempt(
    job: ClaimedJob,
    deployment: string,
    failed: { attemptId: string; reason: string } | null,
  ): Promise<{ written: Written; attemptId: string }>
  /** Moves generating → generated: result, usage and charge; the upload's data key is erased with them. */
  sealResult(job: ClaimedJob, attemptId: string, sealed: NewResult, media: Media | null): Promise<Written>
  /**
   * Moves accepted or generating → failed, uncharged, and writes the uncharged work with it. Any failure but an
   * ambiguous one erases the upload's data key.
   */
  failJob(job: ClaimedJob, failure: JobFailure): Promise<Written>
}
