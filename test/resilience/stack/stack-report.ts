import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallRecord, Violation } from '../checker/ledgers.ts'
import type { CampaignStack } from './stack.ts'

/** The results of a campaign, for one stack or for all. */
export interface StackReport<Trial, Found extends Violation> {
  readonly trials: readonly Trial[]
  readonly violations: readonly Found[]
  /** Jobs that never finished. */
  readonly stuckJobs: readonly string[]
  /** Processes that outlived their stack. */
  readonly leftProcesses: readonly number[]
  readonly jobs: number
  readonly transfers: number
  readonly upstreamCalls: number
  readonly batches: BatchCounts
}

/** What became of batches, which shows whether a campaign had any of several payments. */
export interface BatchCounts {
  readonly sent: number
  readonly payments: number
  readonly largest: number
  /** How often payments left a batch for another one. */
  readonly left: number
}

const NO_BATCHES: BatchCounts = { sent: 0, payments: 0, largest: 0, left: 0 }

/** One verdict of the checker on a stack. */
export type Comparison<Found extends Violation> = Omit<StackReport<never, Found>, 'trials' | 'leftProcesses'>

export const NOTHING_COMPARED: Comparison<never> = {
  violations: [],
  stuckJobs: [],
  jobs: 0,
  transfers: 0,
  upstreamCalls: 0,
  batches: NO_BATCHES,
}

/**
 * Waits until the stack is idle and compares its ledgers. `judged` may exclude calls from the verdict; `attribute`
 * returns the origin of a violation for the idempotency key of its job.
 */
export async function compareLedgers<Found extends Violation>(
  stack: CampaignStack,
  callsToReplay: readonly CallRecord[],
  attribute: (violation: Violation, idempotencyKey: string | undefined) => Found,
  judged: (calls: readonly CallRecord[]) => readonly CallRecord[] = (calls) => calls,
): Promise<Comparison<Found>> {
  const stuckJobs = await stack.settleDown()
  const sources = stack.ledgerSources()
  const ledgers = await collect({ ...sources, calls: judged(sources.calls), callsToReplay })
  const { jobs } = ledgers.database
  const keys = new Map(jobs.map(({ id, idempotencyKey }) => [id, idempotencyKey]))
  return {
    stuckJobs,
    violations: check(ledgers).map((violation) => attribute(violation, keys.get(violation.jobId ?? ''))),
    jobs: jobs.length,
    transfers: ledgers.chain.transfers.length,
    upstreamCalls: ledgers.upstream.length,
    batches: {
      sent: ledgers.chain.batches.length,
      payments: ledgers.chain.batches.reduce((sum, { payments }) => sum + payments.length, 0),
      largest: Math.max(0, ...ledgers.chain.batches.map(({ payments }) => payments.length)),
      left: ledgers.database.settlements.reduce((sum, { batchesLeft }) => sum + batchesLeft, 0),
    },
  }
}

/** Merges the results of all stacks. */
export function mergeReports<Trial, Found extends Violation>(
  reports: readonly StackReport<Trial, Found>[],
): StackReport<Trial, Found> {
  const sum = (read: (report: StackReport<Trial, Found>) => number) =>
    reports.reduce((total, report) => total + read(report), 0)
  return {
    trials: reports.flatMap(({ trials }) => trials),
    violations: reports.flatMap(({ violations }) => violations),
    stuckJobs: reports.flatMap(({ stuckJobs }) => stuckJobs),
    leftProcesses: reports.flatMap(({ leftProcesses }) => leftProcesses),
    jobs: sum(({ jobs }) => jobs),
    transfers: sum(({ transfers }) => transfers),
    upstreamCalls: sum(({ upstreamCalls }) => upstreamCalls),
    batches: {
      sent: sum(({ batches }) => batches.sent),
      payments: sum(({ batches }) => batches.payments),
      largest: Math.max(0, ...reports.map(({ batches }) => batches.largest)),
      left: sum(({ batches }) => batches.left),
    },
  }
}
