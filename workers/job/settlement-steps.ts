import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { StepContext, StepOutcome } from './step-outcome.ts'

/**
 * The settlement port of the state loop: implemented with settlement keys of our own, and with a remote facilitator.
 */
export interface SettlementSteps {
  /** Moves generated → settling: stores what will settle the charge before anything is sent. */
  recordSettlement(job: ClaimedJob): Promise<StepOutcome>
  /**
   * Moves settling → completed, settlement_failed or review, or a retry later. Gives up the job's place while it only
   * waits for the chain.
   */
  settleCharge(job: ClaimedJob, context: StepContext): Promise<StepOutcome>
}
