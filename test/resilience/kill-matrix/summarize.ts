import { LEAST_IN_BATCH, type MatrixReport } from './run-matrix.ts'

/** The results of one point. */
export interface RowSummary {
  readonly point: string
  readonly trials: number
  readonly hits: number
  /** How many of these had calls in a batch of several payments. */
  readonly inBatches: number
  /** Number of calls by outcome. */
  readonly released: number
  readonly refused: number
  readonly gaveUp: number
  /** Number of calls that needed more than one signature. */
  readonly signedAgain: number
  /** Milliseconds from the failure to the last final answer, over the trials with a recovery. */
  readonly recoveryP50Ms: number | null
  readonly recoveryP99Ms: number | null
  readonly errors: readonly string[]
}

export function summarize({ trials }: MatrixReport): readonly RowSummary[] {
  const rows = [...new Set(trials.map(({ row }) => row))]
  return rows.map((row) => {
    const own = trials.filter((trial) => trial.row === row)
    const calls = own.flatMap((trial) => trial.calls)
    const recoveries = own.flatMap(({ recoveryMs }) => (recoveryMs === null ? [] : [recoveryMs]))
    const ended = (outcome: string) => calls.filter((call) => call.outcome === outcome).length
    return {
      point: row,
      trials: own.length,
      hits: own.filter(({ hit }) => hit).length,
      inBatches: own.filter(({ hit, largestBatch }) => hit && largestBatch >= LEAST_IN_BATCH).length,
      released: ended('released'),
      refused: ended('refused'),
      gaveUp: ended('gave_up'),
      signedAgain: calls.filter(({ nonces }) => nonces.length > 1).length,
      recoveryP50Ms: percentile(recoveries, 0.5),
      recoveryP99Ms: percentile(recoveries, 0.99),
      errors: own.flatMap(({ error }) => error ?? []),
    }
  })
}

/** Returns the smallest value that at least this share of all values does not exceed; `null` without values. */
export function percentile(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}

/** Returns the reasons for which a campaign has failed; empty when it has passed. */
export function failuresOf(report: MatrixReport): readonly string[] {
  const rows = summarize(report)
  const ofBatches = new Set(report.trials.flatMap(({ row, point }) => (point.together ? row : [])))
  return [
    ...report.violations.map(
      ({ invariant, jobId, detail, trial }) => `${invariant}: ${detail} (job ${jobId}, ${trial ?? 'no trial'})`,
    ),
    ...report.stuckJobs.map((id) => `job ${id} never finished`),
    ...report.leftProcesses.map((pid) => `process ${pid} outlived its stack`),
    ...rows.filter(({ hits }) => hits === 0).map(({ point }) => `${point} was never reached`),
    ...rows
      .filter(({ point, hits, inBatches }) => report.hasBlocks && ofBatches.has(point) && hits > 0 && inBatches === 0)
      .map(({ point }) => `${point} was never reached with several payments in a batch`),
    ...rows.flatMap(({ point, errors }) => errors.map((error) => `${point}: ${error}`)),
    ...rows.filter(({ gaveUp }) => gaveUp > 0).map(({ point, gaveUp }) => `${point}: ${gaveUp} clients gave up`),
  ]
}

/** Renders the rows as a table. */
export function renderTable(rows: readonly RowSummary[]): readonly string[] {
  const width = Math.max(...rows.map(({ point }) => point.length))
  const line = (first: string, cells: readonly (number | string | null)[]) =>
    `${first.padEnd(width)} ${cells.map((value) => String(value ?? '-').padStart(9)).join('')}`
  return [
    line('point', ['trials', 'hits', 'batched', 'released', 'refused', 'gave up', 'resigned', 'p50 ms', 'p99 ms']),
    ...rows.map((row) =>
      line(row.point, [
        row.trials,
        row.hits,
        row.inBatches,
        row.released,
        row.refused,
        row.gaveUp,
        row.signedAgain,
        row.recoveryP50Ms,
        row.recoveryP99Ms,
      ]),
    ),
  ]
}
