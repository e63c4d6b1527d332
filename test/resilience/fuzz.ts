import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { fuzzPayments } from './fuzz/fuzz-payments.ts'

export const HELP = `Usage: npm run campaign -- fuzz [--runs N] [--seed S]

Sends N (default 10000) mutations of a valid payment to a separate sandbox. Each must be rejected with a documented
error, and none may leave a job, a claim, an upstream call or an unexpected failure. Prints the seed and the number of
rejections by error. Exits with code 1 and the smallest failing mutation otherwise.`

const DEFAULT_RUNS = 10_000

const readCount = (text: string | undefined, fallback: number) => (text === undefined ? fallback : Number(text))

/** Runs the campaign. Throws with the smallest failing mutation. */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { runs: { type: 'string' }, seed: { type: 'string' } } })
  const runs = readCount(values.runs, DEFAULT_RUNS)
  const seed = readCount(values.seed, randomInt(2 ** 31))
  if (!Number.isSafeInteger(runs) || runs < 1 || !Number.isSafeInteger(seed)) {
    console.error(`--runs and --seed must be integers.\n\n${HELP}`)
    return 2
  }
  console.log(`seed ${seed}, ${runs} runs`)
  const startedAt = performance.now()
  const tally = await fuzzPayments({ runs, seed })
  for (const [answer, count] of Object.entries(tally).sort(([, a], [, b]) => b - a))
    console.log(`${String(count).padStart(8)}  ${answer}`)
  console.log(`all rejected without a trace, in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
  return 0
}
