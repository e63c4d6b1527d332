import pLimit from 'p-limit'
import { PATIENCE_MS } from '../../support/patience.ts'
import { survivorsOf } from '../../support/processes/is-running.ts'
import { createRandom } from '../calls/random.ts'
import type { CallerAnswer, CallRecord, Violation } from '../checker/ledgers.ts'
import {
  type Comparison,
  compareLedgers,
  mergeReports,
  NOTHING_COMPARED,
  type StackReport,
} from '../stack/stack-report.ts'
import { type CampaignStackOptions, startCampaignStack } from '../stack/stack.ts'
import { isBatchKind } from './batch-faults.ts'
import { mine, useBlocks } from './chain-faults.ts'
import type { FaultKind } from './faults.ts'
import { createResources } from './resources.ts'
import { payersFor, runBatchTrial } from './run-batch-trial.ts'
import { runTrial, type Trial } from './run-trial.ts'

export interface NemesisOptions {
  readonly seeds: readonly number[]
  readonly kinds: readonly FaultKind[]
  readonly stacks: number
  /** Number of concurrent trials of a stack. */
  readonly atOnce: number
  /** Number of trials of a stack after which the checker runs; it also runs at the end. */
  readonly checkEvery: number
  /** Seconds between blocks; by default each transaction is mined at once. */
  readonly blockSeconds?: number | undefined
  readonly stack?: CampaignStackOptions
  readonly onProgress?: (line: string) => void
  /** Reports every trial, not only slow and failed ones. */
  readonly isVerbose?: boolean
}

export type FoundViolation = Violation & { readonly seed: number | null }

type NemesisStackReport = StackReport<Trial, FoundViolation>
export type NemesisReport = NemesisStackReport & { readonly durationMs: number }

/** Returns the seeds of a campaign's trials. */
export function trialSeeds(seed: number, trials: number): readonly number[] {
  const random = createRandom(seed)
  return Array.from({ length: trials }, () => Math.floor(random() * 2 ** 32))
}

/** A silent provider is abandoned within seconds, which is many times the latency of one that answers. */
const WORKER_TIMING = { PROVIDER_TIMEOUT_SECONDS: '15' }

/** Returns whether all faults are those of batches: then each trial makes batches of several payments for them. */
export function isAboutBatches({ kinds }: Pick<NemesisOptions, 'kinds'>): boolean {
  return kinds.every(isBatchKind)
}

/** Runs all trials, several concurrently on each stack, and stops early when the ledgers disagree. */
export async function runNemesis(options: NemesisOptions): Promise<NemesisReport> {
  const startedAt = performance.now()
  const { seeds, stacks } = options
  const parts = Array.from({ length: stacks }, (_, stack) => seeds.filter((_, index) => index % stacks === stack))
  const reports = await Promise.all(parts.map((part) => runOnStack(options, part)))
  return { ...mergeReports(reports), durationMs: Math.round(performance.now() - startedAt) }
}

async function runOnStack(options: NemesisOptions, seeds: readonly number[]): Promise<NemesisStackReport> {
  const { atOnce, checkEvery, kinds, onProgress = () => undefined } = options
  const stack = await startCampaignStack({
    proxied: true,
    ...(isAboutBatches(options) ? { approvedPayers: payersFor(atOnce) } : {}),
    ...options.stack,
    workerEnvironment: WORKER_TIMING,
  })
  const pids = new Set<number>()
  const trials: Trial[] = []
  let last: Comparison<FoundViolation> = NOTHING_COMPARED
  try {
    // Reorganizations are never deep enough to remove the funding of the payers.
    await mine(stack.info.rpcUrl, 5)
    if (options.blockSeconds !== undefined) await useBlocks(stack.info.rpcUrl, options.blockSeconds)
    const context = { stack, resources: createResources(), freeSponsored: [...stack.payers.sponsored] }
    const ofBatches = { ...context, kinds: kinds.filter(isBatchKind), payers: [...stack.payers.approved] }
    const run = (seed: number) =>
      isAboutBatches(options) ? runBatchTrial(ofBatches, seed) : runTrial({ ...context, kinds }, seed)
    const limit = pLimit(atOnce)
    const replayed = new Set<CallRecord>()
    for (let from = 0; from < seeds.length && last.violations.length === 0; from += checkEvery) {
      const batch = seeds.slice(from, from + checkEvery).map((seed) =>
        limit(async () => {
          const trial = await run(seed)
          trials.push(trial)
          for (const pid of Object.values(stack.info.pids)) pids.add(pid)
          if (options.isVerbose || trial.error !== null || trial.recoveryMs > 30_000) onProgress(describeTrial(trial))
        }),
      )
      await Promise.all(batch)
      const fresh = stack.caller.records.filter((record) => !replayed.has(record))
      last = await compareLedgers(
        stack,
        fresh,
        (violation, key) => ({ ...violation, seed: seedOf(trials, key) }),
        (calls) => withoutReorganized(calls, stack.reorganizedAt),
      )
      for (const record of fresh) replayed.add(record)
      onProgress(`${trials.length} of ${seeds.length} trials: ${last.jobs} jobs, ${last.violations.length} violations`)
    }
    const isBroken =
      last.violations.length > 0 || last.stuckJobs.length > 0 || trials.some(({ error }) => error !== null)
    if (isBroken) onProgress(`files kept in ${stack.keepFiles()}`)
    await stack.stop()
    return { trials, ...last, leftProcesses: await survivorsOf(pids, stack.directory) }
  } catch (error) {
    await stack.stop()
    throw error
  }
}

export function describeTrial({ seed, faults, recoveryMs, error }: Trial): string {
  return `trial ${seed}: ${faults.join(', ')}; recovered in ${recoveryMs} ms${error === null ? '' : `; ${error}`}`
}

function seedOf(trials: readonly Trial[], key: string | undefined): number | null {
  return trials.find(({ calls }) => calls.some(({ idempotencyKey }) => idempotencyKey === key))?.seed ?? null
}

/** How long after a reorganization a settlement may still be missing on chain. */
const RESUBMISSION_MS = PATIENCE_MS
/** Between an answer and the read of the chain that it is compared with. */
const UNTIL_READ_MS = 10_000

/**
 * Results are released at one confirmation here, so a reorganization may remove a settlement that was confirmed. Then
 * the checker does not judge whether it was mined at the time of the answer, only that it is on chain once in the end.
 */
function withoutReorganized(calls: readonly CallRecord[], reorganizedAt: readonly number[]): readonly CallRecord[] {
  const isReorganized = ({ wasMined, receivedAt }: CallerAnswer) =>
    wasMined === false &&
    reorganizedAt.some((at) => receivedAt >= at - UNTIL_READ_MS && receivedAt <= at + RESUBMISSION_MS)
  return calls.map((call) => ({
    ...call,
    answers: call.answers.map((answer) => (isReorganized(answer) ? { ...answer, wasMined: null } : answer)),
  }))
}
