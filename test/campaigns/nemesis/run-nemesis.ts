import pLimit from 'p-limit'
import { check } from '../checker/check.ts'
import { collect } from '../checker/collect.ts'
import type { CallerAnswer, CallRecord, Violation } from '../checker/ledgers.ts'
import { createRandom } from '../random.ts'
import { type CampaignStack, type CampaignStackOptions, startCampaignStack } from '../stack.ts'
import { mine } from './chain-faults.ts'
import type { FaultKind } from './faults.ts'
import { createResources } from './resources.ts'
import { runTrial, type Trial } from './run-trial.ts'

export interface NemesisOptions {
  readonly seeds: readonly number[]
  readonly kinds: readonly FaultKind[]
  readonly stacks: number
  /** How many trials are under way on a stack at once. */
  readonly atOnce: number
  /** The whole checker compares after so many trials of a stack, and at the end. */
  readonly checkEvery: number
  readonly stack?: CampaignStackOptions
  readonly onProgress?: (line: string) => void
  /** Tells of every trial, not only of slow and broken ones. */
  readonly isVerbose?: boolean
}

export type FoundViolation = Violation & { readonly seed: number | null }

export interface NemesisReport {
  readonly trials: readonly Trial[]
  readonly violations: readonly FoundViolation[]
  readonly stuckJobs: readonly string[]
  readonly leftProcesses: readonly number[]
  readonly jobs: number
  readonly transfers: number
  readonly upstreamCalls: number
  readonly durationMs: number
}

/** The seeds of a campaign's trials. */
export function trialSeeds(seed: number, trials: number): readonly number[] {
  const random = createRandom(seed)
  return Array.from({ length: trials }, () => Math.floor(random() * 2 ** 32))
}

/** Short leases and timeouts: a lost worker is replaced within seconds, and a silent provider given up. */
const WORKER_TIMING = { PROVIDER_TIMEOUT_SECONDS: '6', SETTLEMENT_MARGIN_SECONDS: '30' }

/** Runs all trials, several at a time on each stack, and stops early when the ledgers disagree. */
export async function runNemesis(options: NemesisOptions): Promise<NemesisReport> {
  const startedAt = performance.now()
  const { seeds, stacks } = options
  const parts = Array.from({ length: stacks }, (_, stack) => seeds.filter((_, index) => index % stacks === stack))
  const reports = await Promise.all(parts.map((part) => runOnStack(options, part)))
  const sum = (read: (report: StackReport) => number) => reports.reduce((total, report) => total + read(report), 0)
  return {
    trials: reports.flatMap(({ trials }) => trials),
    violations: reports.flatMap(({ violations }) => violations),
    stuckJobs: reports.flatMap(({ stuckJobs }) => stuckJobs),
    leftProcesses: reports.flatMap(({ leftProcesses }) => leftProcesses),
    jobs: sum(({ jobs }) => jobs),
    transfers: sum(({ transfers }) => transfers),
    upstreamCalls: sum(({ upstreamCalls }) => upstreamCalls),
    durationMs: Math.round(performance.now() - startedAt),
  }
}

type StackReport = Omit<NemesisReport, 'durationMs'>
type Comparison = Omit<StackReport, 'trials' | 'leftProcesses'>

async function runOnStack(options: NemesisOptions, seeds: readonly number[]): Promise<StackReport> {
  const { atOnce, checkEvery, kinds, onProgress = () => undefined } = options
  const stack = await startCampaignStack({ proxied: true, ...options.stack, workerEnvironment: WORKER_TIMING })
  const pids = new Set<number>()
  const trials: Trial[] = []
  let last: Comparison = { violations: [], stuckJobs: [], jobs: 0, transfers: 0, upstreamCalls: 0 }
  try {
    // Reorganizations are never deep enough to take the payers' money back.
    await mine(stack.info.rpcUrl, 5)
    const ground = { stack, kinds, resources: createResources(), freeSponsored: [...stack.payers.sponsored] }
    const limit = pLimit(atOnce)
    const replayed = new Set<CallRecord>()
    for (let from = 0; from < seeds.length && last.violations.length === 0; from += checkEvery) {
      const batch = seeds.slice(from, from + checkEvery).map((seed) =>
        limit(async () => {
          const trial = await runTrial(ground, seed)
          trials.push(trial)
          for (const pid of Object.values(stack.info.pids)) pids.add(pid)
          if (options.isVerbose || trial.error !== null || trial.recoveryMs > 30_000) onProgress(describeTrial(trial))
        }),
      )
      await Promise.all(batch)
      const fresh = stack.caller.records.filter((record) => !replayed.has(record))
      last = await compare(stack, fresh, trials)
      for (const record of fresh) replayed.add(record)
      onProgress(`${trials.length} of ${seeds.length} trials: ${last.jobs} jobs, ${last.violations.length} violations`)
    }
    const isBroken =
      last.violations.length > 0 || last.stuckJobs.length > 0 || trials.some(({ error }) => error !== null)
    if (isBroken) onProgress(`kept for a look: ${stack.keepFiles()}`)
    await stack.stop()
    return { trials, ...last, leftProcesses: [...pids].filter(isRunning) }
  } catch (error) {
    await stack.stop()
    throw error
  }
}

export function describeTrial({ seed, faults, recoveryMs, error }: Trial): string {
  return `trial ${seed}: ${faults.join(', ')}; recovered in ${recoveryMs} ms${error === null ? '' : `; ${error}`}`
}

async function compare(
  stack: CampaignStack,
  callsToReplay: readonly CallRecord[],
  trials: readonly Trial[],
): Promise<Comparison> {
  const stuckJobs = await stack.settleDown()
  const sources = stack.ledgerSources()
  const calls = withoutTakenBack(sources.calls, stack.reorganizedAt)
  const ledgers = await collect({ ...sources, calls, callsToReplay })
  const { jobs } = ledgers.database
  const keys = new Map(jobs.map(({ id, idempotencyKey }) => [id, idempotencyKey]))
  const seedOf = (jobId: string | null) => {
    const key = jobId === null ? undefined : keys.get(jobId)
    return trials.find(({ calls }) => calls.some(({ idempotencyKey }) => idempotencyKey === key))?.seed ?? null
  }
  return {
    stuckJobs,
    violations: check(ledgers).map((violation) => ({ ...violation, seed: seedOf(violation.jobId) })),
    jobs: jobs.length,
    transfers: ledgers.chain.transfers.length,
    upstreamCalls: ledgers.upstream.length,
  }
}

/** How long after a reorganisation a settlement may still be on its way back into the chain. */
const ON_ITS_WAY_BACK_MS = 20_000

/**
 * Results are released at one confirmation here, so a reorganisation may take back what had proved one. Whether it was mined at
 * the very moment of the answer is not judged then; that it is in the chain in the end, and once, is.
 */
function withoutTakenBack(calls: readonly CallRecord[], reorganizedAt: readonly number[]): readonly CallRecord[] {
  const isTakenBack = ({ wasMined, receivedAt }: CallerAnswer) =>
    wasMined === false && reorganizedAt.some((at) => receivedAt >= at - 1000 && receivedAt <= at + ON_ITS_WAY_BACK_MS)
  return calls.map((call) => ({
    ...call,
    answers: call.answers.map((answer) => (isTakenBack(answer) ? { ...answer, wasMined: null } : answer)),
  }))
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
