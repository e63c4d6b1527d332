import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { StepOutcome } from '../step-outcome.ts'
import { collectCharge, recordCharge, type SettlementDependencies } from './settle-charge.ts'

/** One way of collecting charges. A worker has one: its own settlement keys, or a remote facilitator. */
export interface Collector {
  /** generated → settling: what will collect the charge becomes durable before anything is sent. */
  recordCharge(job: ClaimedJob): Promise<StepOutcome>
  /** settling → completed, settlement_failed or review, or later. */
  collectCharge(job: ClaimedJob): Promise<StepOutcome>
}

/** Collects with settlement keys of our own. */
export function createOwnKeyCollector(dependencies: SettlementDependencies): Collector {
  return {
    recordCharge: (job) => recordCharge(dependencies, job),
    collectCharge: (job) => collectCharge(dependencies, job),
  }
}
