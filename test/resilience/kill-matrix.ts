import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { replaceFile } from '../../infra/sandbox/replace-file.ts'
import { FAULT_POINTS, rowName, selectPoints } from './kill-matrix/fault-points.ts'
import { runMatrix } from './kill-matrix/run-matrix.ts'
import { failuresOf, percentile, renderTable, summarize } from './kill-matrix/summarize.ts'
import { parseOn } from './stack/outer-services.ts'
import { describeBatches } from './stack/stack-report.ts'

export const HELP = `Usage: npm run campaign -- kill-matrix [--trials 50] [--seed 1] [--points core|all|quick|name,…] [--stacks 1]
  [--on redis,s3]

Makes a process of a running farebox fail at each point of a paid call, repeatedly, and compares the
ledgers of chain, upstream, PostgreSQL, object store and clients.

  --trials   trials of each point (50)
  --seed     determines order, calls and payers (1)
  --points   core, all, quick, batches, or names of points (core); --list shows them
  --blocks   seconds between blocks, so that payments share a batch (each transaction at once); a process then fails at a
             point of batches only while it has several payments there
  --direct   without a settlement contract: the key settles each payment by itself
  --stacks   concurrent stacks that share the trials (1)
  --check-every   trials of a stack between two comparisons (200)
  --on       redis, s3 or redis,s3: services started for the campaign (PostgreSQL and a folder)
  --at-once  concurrent trials of a stack (12)
  --result   file for the result as JSON (.farebox/campaigns/kill-matrix-<seed>.json)`

const argumentsSchema = z.object({
  trials: z.coerce.number().int().positive().default(50),
  seed: z.coerce.number().int().nonnegative().default(1),
  points: z.string().default('core'),
  stacks: z.coerce.number().int().positive().default(1),
  'check-every': z.coerce.number().int().positive().default(200),
  'at-once': z.coerce.number().int().positive().default(12),
  on: z.string().default('').transform(parseOn),
  result: z.string().optional(),
})

/** Runs the command. Returns exit code 1 for any violation, stuck job or point that was never reached. */
export async function run(args: readonly string[]): Promise<number> {
  const text = { type: 'string' } as const
  const { values } = parseArgs({
    args: [...args],
    options: {
      trials: text,
      seed: text,
      points: text,
      stacks: text,
      'check-every': text,
      'at-once': text,
      on: text,
      result: text,
      list: { type: 'boolean' },
      blocks: text,
      direct: { type: 'boolean', default: false },
    },
  })
  if (values.list) {
    console.log(FAULT_POINTS.map(rowName).join('\n'))
    return 0
  }
  const options = argumentsSchema.parse(values)
  const points = selectPoints(options.points, values.direct ? 'directly' : 'in_batches')
  const startedAt = performance.now()
  console.log(`${points.length} points × ${options.trials} trials, seed ${options.seed}`)
  const report = await runMatrix({
    points,
    trials: options.trials,
    seed: options.seed,
    stacks: options.stacks,
    checkEvery: options['check-every'],
    atOnce: options['at-once'],
    blockSeconds: values.blocks === undefined ? undefined : Number(values.blocks),
    stack: { on: options.on, settlementContract: !values.direct },
    onProgress: (line) => console.log(`${((performance.now() - startedAt) / 1000).toFixed(0).padStart(5)} s  ${line}`),
  })
  const rows = summarize(report)
  const failures = failuresOf(report)
  const recoveries = report.trials.flatMap(({ recoveryMs }) => (recoveryMs === null ? [] : [recoveryMs]))
  console.log(`batches: ${describeBatches(report.batches)}`)
  const total = {
    seed: options.seed,
    trials: report.trials.length,
    hits: report.trials.filter(({ hit }) => hit).length,
    jobs: report.jobs,
    transfers: report.transfers,
    upstreamCalls: report.upstreamCalls,
    batches: report.batches,
    recoveryP50Ms: percentile(recoveries, 0.5),
    recoveryP99Ms: percentile(recoveries, 0.99),
    durationMs: report.durationMs,
  }
  const path = options.result ?? join('.farebox', 'campaigns', `kill-matrix-${options.seed}.json`)
  await replaceFile(path, `${JSON.stringify({ total, rows, failures, violations: report.violations }, null, 2)}\n`)
  console.log(`\n${renderTable(rows).join('\n')}\n\n${JSON.stringify(total)}\nwritten to ${path}`)
  console.log(failures.length === 0 ? 'no violation' : `FAILED\n${failures.join('\n')}`)
  return failures.length === 0 ? 0 : 1
}
