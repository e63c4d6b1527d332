import type { LeasedJob, Written } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { PreparedSettlement } from '#shared/payment/facilitator.ts'
import type { WhenReady } from '../executions/execution.ts'

/**
 * The result of a step. `moved`: the job is in another state and looks like `job`; its settlement may be in preparation.
 * `finished`: nothing more to do. `later`: the job must wait; defer it and try again. `elsewhere`: this process is stopping;
 * another one takes the job. `stale`: another worker has the job; write nothing more.
 */
export type StepOutcome =
  | { next: 'moved'; job: LeasedJob; preparing?: PreparingSettlement | undefined }
  | { next: 'finished' | 'elsewhere' | 'stale' }
  | ({ next: 'later' } & Deferral)

/** A charge that is being prepared, perhaps while its result is being stored. */
export type PreparingSettlement = Promise<{
  readonly prepared: PreparedSettlement
  /** When it was, on the process's monotonic clock. */
  readonly preparedMs: number
}>

/** What a running step knows about its job's lease and slot. */
export interface StepContext {
  /** Aborts when the lease is lost; writes after that have no effect. */
  readonly signal: AbortSignal
  /** Gives up the job's place in its queue: from now on it only waits and finishes. May be called repeatedly. */
  readonly releaseSlot: () => void
  /** Of the step before. */
  readonly preparing?: PreparingSettlement | undefined
}

/** Why a job must wait. */
export interface Deferral {
  /** Delay before the next attempt; it grows with each further deferral. */
  readonly delayMs: number
  readonly reason: string
  /** How the job ends if the wait takes too long. */
  readonly ending: Ending
  /** Asks for a call of `wake`, which ends the wait, when what the deferred job waits for is there; at most one. */
  readonly whenReady?: WhenReady
}

/** How a job ends that was deferred for too long. Each has its own limit. */
export type Ending =
  /** accepted → failed, uncharged. */
  | 'fail'
  /**
   * generated or settling → settlement_failed, as the payer's debt: no transaction can move money, and only the
   * payment itself prevents its settlement.
   */
  | 'owe'
  /** The same without a debt: what the service depends on is down for everyone. */
  | 'withhold'
  /** settling → review: a transaction may be on its way, so the payer must not be asked for another payment. */
  | 'review'

/** Converts a fenced write that finished the job, if it took effect. */
export function finished(written: Written): StepOutcome {
  return { next: written === 'stale' ? 'stale' : 'finished' }
}

/** Converts a fenced write that left the job as `job`, if it took effect: nothing else writes under its fence. */
export function moved(written: Written, job: LeasedJob, preparing?: PreparingSettlement): StepOutcome {
  return written === 'stale' ? { next: 'stale' } : { next: 'moved', job, preparing }
}

/** Fails the job without a charge. */
export async function failWith(
  executionStore: Pick<ExecutionStore, 'failJob'>,
  job: LeasedJob,
  failure: Parameters<ExecutionStore['failJob']>[1],
): Promise<StepOutcome> {
  return finished(await executionStore.failJob(job, failure))
}

/**
 * The settlement port of the state loop: implemented with settlement keys of our own, and with a remote facilitator.
 */
export interface SettlementSteps {
  /** Begins to prepare a charge while its result is being stored. A remote facilitator has nothing to prepare. */
  readonly prepare?: (job: LeasedJob, chargeAmount: AtomicAmount) => PreparingSettlement
  /**
   * Moves generated → settling: stores what will settle the charge before anything is sent. Gives up the job's place
   * while it waits for others that are settled in the same transaction.
   */
  recordSettlement(job: LeasedJob, context: StepContext): Promise<StepOutcome>
  /**
   * Moves settling → completed, settlement_failed or review, or a retry later. Gives up the job's place while it only
   * waits for the chain.
   */
  settleCharge(job: LeasedJob, context: StepContext): Promise<StepOutcome>
}
