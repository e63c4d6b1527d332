import { parseArgs } from 'node:util'
import { renderRows } from './render-rows.ts'

export interface BenchOptions {
  /** A smoke test of less than a minute: its figures say little. */
  readonly quick: boolean
  /** How long a bench of any length goes on, when the caller says so. */
  readonly seconds: number | undefined
}

export type Row = Readonly<Record<string, string | number>>

/** A figure that means something on other machines as well, since both its parts were measured in one run. */
export interface Ratio {
  readonly what: string
  readonly value: number
  /** As text, like `≥ 0.8`. Left out: nothing was promised. */
  readonly target?: string
  readonly isMet?: boolean
}

export interface BenchResult {
  readonly rows: readonly Row[]
  readonly ratios: readonly Ratio[]
  /** What does not fit into the table; a line each. */
  readonly notes?: readonly string[]
  /** For the JSON only. */
  readonly details?: unknown
  /** What keeps the figures from being better, as far as the run itself shows it. */
  readonly limitedBy: string
}

/** A ratio that should not be smaller than `least`. */
export function atLeast(least: number, what: string, value: number): Ratio {
  return { what, value, target: `≥ ${least}`, isMet: value >= least }
}

/** A figure that should not be larger than `most`. */
export function atMost(most: number, what: string, value: number): Ratio {
  return { what, value, target: `≤ ${most}`, isMet: value <= most }
}

/**
 * Runs this process's bench as the command line says (`--quick`, `--seconds 60`), prints what it found and tells it to the
 * process that started it. What cannot be measured, such as a failed payment, throws.
 */
export async function runBench(measure: (options: BenchOptions) => Promise<BenchResult>): Promise<void> {
  const { values } = parseArgs({
    options: { quick: { type: 'boolean', default: false }, seconds: { type: 'string' } },
  })
  const seconds = values.seconds === undefined ? undefined : Number(values.seconds)
  if (seconds !== undefined && !(seconds > 0)) throw new Error('--seconds needs a positive number')
  reportResult(await measure({ quick: values.quick, seconds }))
}

/** Prints a bench's result and tells it to the process that started this one. */
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
