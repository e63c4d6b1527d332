import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { fuzzPayments } from './fuzz-payments.ts'

const HELP = `Usage: npm run fuzz -- [--runs N] [--seed S]

Sends N (default 10000) mutations of a valid payment to a sandbox of its own. Each must be refused in a documented
way, and none may leave a job, a claim, an upstream call or an unexpected failure. Prints the seed, and how often
each refusal was given. Exit code 1 when a mutation was not refused so, with the smallest one that fails.`

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
  console.error(`--runs and --seed are whole numbers.\n\n${HELP}`)
  process.exitCode = 2
} else {
  console.log(`seed ${seed}, ${runs} runs`)
  const startedAt = performance.now()
  const tally = await fuzzPayments({ runs, seed })
  for (const [answer, count] of Object.entries(tally).sort(([, a], [, b]) => b - a))
    console.log(`${String(count).padStart(8)}  ${answer}`)
  console.log(`all refused, no trace left, in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
}
