import { shareTogether } from '../stack/stack-report.ts'
import type { FaultKind } from './faults.ts'
import { LEAST_IN_BATCH } from './run-batch-trial.ts'
import type { NemesisReport } from './run-nemesis.ts'
import type { Trial } from './run-trial.ts'

/** Fewer payments with others in their batch show that the campaign does not make batches: the first one goes alone. */
const LEAST_SHARE_TOGETHER = 0.25
/** How often a kind of fault may be drawn without meeting a batch: a batch may be mined before a fault sees it. */
const MOST_MISSES = 5

interface KindSummary {
  readonly kind: FaultKind
  readonly drawn: number
  /** The sizes of the batches of several payments that it met. */
  readonly sizes: readonly number[]
}

function summarizeKinds(trials: readonly Trial[]): readonly KindSummary[] {
  const byKind = Map.groupBy(
    trials.flatMap(({ met }) => met),
    ({ kind }) => kind,
  )
  return [...byKind].map(([kind, met]) => ({
    kind,
    drawn: met.length,
    sizes: met.flatMap(({ sizes }) => sizes.filter((size) => size >= LEAST_IN_BATCH)),
  }))
}

/** Returns a line for each kind of fault of batches: how many batches of several payments met it. */
export function describeMet(trials: readonly Trial[]): readonly string[] {
  return summarizeKinds(trials).map(({ kind, drawn, sizes }) => {
    const sum = sizes.reduce((total, size) => total + size, 0)
    return `${kind}: ${drawn} times, met ${sizes.length} batches of several payments, of ${sum} together`
  })
}

/** Returns why a run says nothing about batches: they had one payment each, or a fault never met one of several. */
export function batchFailures(
  { trials, batches }: Pick<NemesisReport, 'trials' | 'batches'>,
  kinds: readonly FaultKind[],
): readonly string[] {
  const share = shareTogether(batches)
  const summaries = summarizeKinds(trials)
  const missed = kinds.filter((kind) => {
    const summary = summaries.find((one) => one.kind === kind)
    return summary && summary.sizes.length === 0 && summary.drawn > MOST_MISSES
  })
  return [
    ...(share < LEAST_SHARE_TOGETHER
      ? [`only ${Math.round(share * 100)} % of the payments shared a batch; use --blocks, and more time between blocks`]
      : []),
    ...missed.map((kind) => `${kind} never met a batch of several payments`),
  ]
}
