import { parseArgs } from 'node:util'
import { type Row, renderRows } from './render-rows.ts'

export interface BenchOptions {
  /** Runs a short smoke test whose figures are not meaningful. */
  readonly quick: boolean
  /** The requested duration, for benches of variable length. */
  readonly seconds: number | undefined
  /** Measures only the settings whose description contains this, for benches with many. */
  readonly only: string | undefined
  /** How many calls a ledger has, for the bench of its size. */
  readonly calls: number | undefined
  /** Where such a ledger is kept for later runs. */
  readonly directory: string | undefined
}

/** A figure that is comparable between machines, because both its parts were measured in one run. */
export interface Ratio {
  readonly what: string
  readonly value: number
  /** As text, such as `≥ 0.8`; absent when there is no target. */
  readonly target?: string
  readonly isMet?: boolean
}

export interface BenchResult {
  readonly rows: readonly Row[]
  readonly ratios: readonly Ratio[]
  /** Additional lines below the table. */
  readonly notes?: readonly string[]
  /** Figures at the top level of the JSON, by name. */
  readonly figures?: Readonly<Record<string, number>>
  /** Included in the JSON only. */
  readonly details?: unknown
  /** The bottleneck, as far as the run shows it. */
  readonly limitedBy: string
}

/** Returns a ratio with the target of at least `least`. */
export function atLeast(least: number, what: string, value: number): Ratio {
  return { what, value, target: `≥ ${least}`, isMet: value >= least }
}

/** Returns a ratio with the target of at most `most`. */
export function atMost(most: number, what: string, value: number): Ratio {
  return { what, value, target: `≤ ${most}`, isMet: value <= most }
}

/**
 * Runs this process's bench with the options of the command line (`--quick`, `--seconds 60`, `--only text`, …), prints the result and
 * sends it to the parent process. Throws when the measurement fails, for example because of a failed payment.
 */
export async function runBench(measure: (options: BenchOptions) => Promise<BenchResult>): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      only: { type: 'string' },
      calls: { type: 'string' },
      directory: { type: 'string' },
    },
  })
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds)
  if (seconds !== undefined && !(seconds > 0)) throw new Error('--seconds must be a positive number')
  const calls = values.calls === undefined ? undefined : Number(values.calls)
  if (calls !== undefined && !(Number.isSafeInteger(calls) && calls > 0))
    throw new Error('--calls must be a positive number')
  const { quick, only, directory } = values
  reportResult(await measure({ quick, seconds, only, calls, directory }))
}

/** Prints a bench's result and sends it to the parent process. */
export function reportResult(result: BenchResult): void {
  console.log(renderRows(result.rows))
  for (const note of result.notes ?? []) console.log(note)
  for (const { what, value, target, isMet } of result.ratios)
    console.log(
      `${what}: ${value.toFixed(2)}${target === undefined ? '' : ` (${target}: ${isMet ? 'met' : 'MISSED'})`}`,
    )
  console.log(`limited by: ${result.limitedBy}`)
  process.send?.(result)
}
