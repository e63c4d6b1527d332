import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { StepOutcome } from '../job/step-outcome.ts'
import { recordSettlement, type SettlementDependencies, settleCharge } from './own-keys/settle-charge.ts'

/** One way of collecting charges. A worker has one: its own settlement keys, or a remote facilitator. */
export interface SettlementSteps {
  /** generated → settling: what will collect the charge becomes durable before anything is sent. */
  recordSettlement(job: ClaimedJob): Promise<StepOutcome>
  /** settling → completed, settlement_failed or review, or later. */
  settleCharge(job: ClaimedJob): Promise<StepOutcome>
}

/** Collects with settlement keys of our own. */
export function createOwnKeySettlement(dependencies: SettlementDependencies): SettlementSteps {
  return {
    recordSettlement: (job) => recordSettlement(dependencies, job),
    settleCharge: (job) => settleCharge(dependencies, job),
  }
}
