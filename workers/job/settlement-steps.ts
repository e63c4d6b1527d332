import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { StepContext, StepOutcome } from './step-outcome.ts'

/**
 * The settlement port of the state loop: implemented with settlement keys of our own, and with a remote facilitator.
 */
export interface SettlementSteps {
  /**
   * Moves generated → settling: stores what will settle the charge before anything is sent. Gives up the job's place
   * while it waits for others that are settled in the same transaction.
   */
  recordSettlement(job: ClaimedJob, context: StepContext): Promise<StepOutcome>
  /**
   * Moves settling → completed, settlement_failed or review, or a retry later. Gives up the job's place while it only
   * waits for the chain.
   */
  settleCharge(job: ClaimedJob, context: StepContext): Promise<StepOutcome>
}
