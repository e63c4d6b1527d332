import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { fuzzPayments } from './fuzz-payments.ts'

const HELP = `Usage: npm run fuzz -- [--runs N] [--seed S]

Sends N (default 10000) mutations of a valid payment to a separate sandbox. Each must be rejected with a documented
error, and none may leave a job, a claim, an upstream call or an unexpected failure. Prints the seed and the number of
rejections by error. Exits with code 1 and the smallest failing mutation otherwise.`

const DEFAULT_RUNS = 10_000

function readCount(text: string | undefined, fallback: number): number {
  return text === undefined ? fallback : Number(text)
}

const { values } = parseArgs({
  options: { runs: { type: 'string' }, seed: { type: 'string' }, help: { type: 'boolean' } },
})
const runs = readCount(values.runs, DEFAULT_RUNS)
const seed = readCount(values.seed, randomInt(2 ** 31))
if (values.help) console.log(HELP)
else if (!Number.isSafeInteger(runs) || runs < 1 || !Number.isSafeInteger(seed)) {
  console.error(`--runs and --seed must be integers.\n\n${HELP}`)
  process.exitCode = 2
} else {
  console.log(`seed ${seed}, ${runs} runs`)
  const startedAt = performance.now()
  const tally = await fuzzPayments({ runs, seed })
  for (const [answer, count] of Object.entries(tally).sort(([, a], [, b]) => b - a))
    console.log(`${String(count).padStart(8)}  ${answer}`)
  console.log(`all rejected without a trace, in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
}
