import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallRecord, Ledgers, Violation } from '../checker/ledgers.ts'
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
  /** How many were mined of each number of payments. */
  readonly mined: Readonly<Record<number, number>>
  /** How many of these reverted as a whole, and how many settled some of their payments and not others. */
  readonly revertedAsAWhole: number
  readonly revertedInParts: number
  /** How many were stored, signed again with a higher fee, and given up for their size. */
  readonly stored: number
  readonly replaced: number
  readonly abandoned: number
  /** How often payments left a batch for another one. */
  readonly left: number
  /** Settlements of released results that a reorganization removed before their payers prevented them. */
  readonly lost: number
}

const NO_BATCHES: BatchCounts = {
  mined: {},
  revertedAsAWhole: 0,
  revertedInParts: 0,
  stored: 0,
  replaced: 0,
  abandoned: 0,
  left: 0,
  lost: 0,
}

const STORED_BATCHES = `SELECT count(*)::int AS stored, count(abandoned_at)::int AS abandoned,
    count(*) FILTER (WHERE (SELECT count(*) FROM settlement_transactions WHERE batch_id = settlement_batches.id) > 1)::int
      AS replaced
  FROM settlement_batches`

/** Returns a line about the batches: how many there were of each size. */
export function describeBatches(batches: BatchCounts): string {
  const { mined, revertedAsAWhole, revertedInParts, stored, replaced, abandoned, left, lost } = batches
  const sizes = Object.entries(mined).map(([size, count]) => `${count} of ${size}`)
  const fates = `${replaced} replaced, ${abandoned} given up, ${revertedAsAWhole} reverted as a whole, ${revertedInParts} in parts`
  return `${stored} stored, mined ${sizes.join(', ') || 'none'} payments; ${fates}; ${left} payments signed again, ${lost} lost`
}

/** Returns the share of the payments in mined batches that had others beside them; 0 without payments. */
export function shareTogether({ mined }: BatchCounts): number {
  const sizes = Object.entries(mined).map(([size, count]) => Number(size) * count)
  const all = sizes.reduce((sum, payments) => sum + payments, 0)
  return all === 0 ? 0 : 1 - (mined[1] ?? 0) / all
}

async function countBatches(stack: CampaignStack, { chain, database }: Ledgers): Promise<BatchCounts> {
  const [stored] = await stack.sql<Pick<BatchCounts, 'stored' | 'abandoned' | 'replaced'>>(STORED_BATCHES)
  // A batch that reverted as a whole reports none of its payments.
  const sizes = new Map<string, number>()
  for (const { hashes } of database.settlements) for (const hash of hashes) sizes.set(hash, (sizes.get(hash) ?? 0) + 1)
  const mined: Record<number, number> = {}
  for (const { transactionHash, payments } of chain.batches) {
    const size = payments.length || (sizes.get(transactionHash) ?? 0)
    mined[size] = (mined[size] ?? 0) + 1
  }
  return {
    ...NO_BATCHES,
    ...stored,
    mined,
    revertedAsAWhole: chain.batches.filter(({ isReverted }) => isReverted).length,
    revertedInParts: chain.batches.filter(
      ({ payments }) => payments.some(({ isSettled }) => isSettled) && payments.some(({ isSettled }) => !isSettled),
    ).length,
    left: database.settlements.reduce((sum, { batchesLeft }) => sum + batchesLeft, 0),
    lost: database.settlements.filter(({ state }) => state === 'lost').length,
  }
}

function mergeBatches(all: readonly BatchCounts[]): BatchCounts {
  return all.reduce((merged, one) => {
    const mined = { ...merged.mined }
    for (const [size, count] of Object.entries(one.mined)) mined[Number(size)] = (mined[Number(size)] ?? 0) + count
    return {
      mined,
      revertedAsAWhole: merged.revertedAsAWhole + one.revertedAsAWhole,
      revertedInParts: merged.revertedInParts + one.revertedInParts,
      stored: merged.stored + one.stored,
      replaced: merged.replaced + one.replaced,
      abandoned: merged.abandoned + one.abandoned,
      left: merged.left + one.left,
      lost: merged.lost + one.lost,
    }
  }, NO_BATCHES)
}

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
    batches: await countBatches(stack, ledgers),
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
    batches: mergeBatches(reports.map(({ batches }) => batches)),
  }
}
