import pLimit from 'p-limit'
import { survivorsOf } from '../../support/processes/is-running.ts'
import { createRandom, shuffled } from '../calls/random.ts'
import type { CallRecord, Violation } from '../checker/ledgers.ts'
import { useBlocks } from '../nemesis/chain-faults.ts'
import {
  type Comparison,
  compareLedgers,
  mergeReports,
  NOTHING_COMPARED,
  type StackReport,
} from '../stack/stack-report.ts'
import { type CampaignStackOptions, startCampaignStack } from '../stack/stack.ts'
import { type FaultPoint, rowName } from './fault-points.ts'
import { createTrialGround, runTrial, type Trial } from './run-trial.ts'

export interface MatrixOptions {
  readonly points: readonly FaultPoint[]
  /** Number of trials of each point. */
  readonly trials: number
  readonly seed: number
  /** Number of concurrent stacks that share the trials. */
  readonly stacks: number
  /** Number of trials of a stack after which the checker runs; it also runs at the end. */
  readonly checkEvery: number
  /** Number of concurrent trials of a stack; most of them recover while others fail. */
  readonly atOnce: number
  /** Seconds between blocks; by default each transaction is mined at once. */
  readonly blockSeconds?: number | undefined
  readonly stack?: CampaignStackOptions
  readonly onProgress?: (line: string) => void
}

/** Violations with the trials of their jobs, where there are any. */
type FoundViolation = Violation & { readonly trial: string | null }

type MatrixStackReport = StackReport<Trial, FoundViolation>
export type MatrixReport = MatrixStackReport & {
  readonly durationMs: number
  /** Whether the payments of a trial wait for a block together. */
  readonly hasBlocks: boolean
}

/** With blocks, a process fails at a point of batches only while it has one of several payments. */
export const LEAST_IN_BATCH = 2

interface PlannedTrial {
  readonly point: FaultPoint
  readonly seed: number
}

/** Runs the matrix: every point `trials` times, in an order determined by the seed. */
export async function runMatrix(options: MatrixOptions): Promise<MatrixReport> {
  const startedAt = performance.now()
  const random = createRandom(options.seed)
  const planned = Array.from({ length: options.trials }, () =>
    options.points.map((point) => ({ point, seed: Math.floor(random() * 2 ** 32) })),
  ).flat()
  const order = shuffled(random, planned)
  const parts = Array.from({ length: options.stacks }, (_, stack) =>
    order.filter((_, index) => index % options.stacks === stack),
  )
  const reports = await Promise.all(parts.map((part, index) => runOnStack(options, part, `stack ${index + 1}`)))
  return {
    ...mergeReports(reports),
    durationMs: Math.round(performance.now() - startedAt),
    hasBlocks: options.blockSeconds !== undefined,
  }
}

async function runOnStack(
  options: MatrixOptions,
  planned: readonly PlannedTrial[],
  name: string,
): Promise<MatrixStackReport> {
  const stack = await startCampaignStack({
    proxied: options.points.some(({ trouble }) => trouble !== undefined),
    ...options.stack,
  })
  const pids = new Set<number>()
  const progress = (line: string) => options.onProgress?.(options.stacks > 1 ? `${name}: ${line}` : line)
  try {
    if (options.blockSeconds !== undefined) await useBlocks(stack.info.rpcUrl, options.blockSeconds)
    // On a chain that mines each transaction at once, what comes alone goes alone.
    const context = createTrialGround(stack, options.blockSeconds === undefined ? 0 : LEAST_IN_BATCH)
    const limit = pLimit(options.atOnce)
    const trials: Trial[] = []
    let last: Comparison<FoundViolation> = NOTHING_COMPARED
    const replayed = new Set<CallRecord>()
    for (let from = 0; from < planned.length; from += options.checkEvery) {
      // Rows that wait for a long timer start first, so that they do not run alone at the end.
      const batch = planned
        .slice(from, from + options.checkEvery)
        .toSorted((one, other) => Number(other.point.slow) - Number(one.point.slow))
      await Promise.all(
        batch.map(({ point, seed }) =>
          limit(async () => {
            trials.push(await runTrial(context, point, seed, createRandom(seed)))
            for (const pid of Object.values(stack.info.pids)) pids.add(pid)
            if (trials.length % 20 === 0) progress(`${trials.length} of ${planned.length} trials`)
          }),
        ),
      )
      await Promise.all(context.restarts)
      const isLast = from + options.checkEvery >= planned.length
      const fresh = stack.caller.records.filter((record) => isLast || !replayed.has(record))
      last = await compareLedgers(stack, fresh, (violation, key) => ({ ...violation, trial: trialOf(trials, key) }))
      for (const record of fresh) replayed.add(record)
      progress(`${trials.length} trials compared: ${last.violations.length} violations, ${last.stuckJobs.length} stuck`)
      if (last.violations.length > 0) break
    }
    if (last.violations.length + last.stuckJobs.length > 0) progress(`files kept in ${stack.keepFiles()}`)
    await stack.stop()
    return { trials, ...last, leftProcesses: await survivorsOf(pids, stack.directory) }
  } catch (error) {
    await stack.stop()
    throw error
  }
}

function trialOf(trials: readonly Trial[], key: string | undefined): string | null {
  const trial = trials.find(({ calls }) => calls.some(({ idempotencyKey }) => idempotencyKey === key))
  return trial ? `${rowName(trial.point)}, seed ${trial.seed}` : null
}
