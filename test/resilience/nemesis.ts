import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import type { CallRecord } from './checker/ledgers.ts'
import { percentile } from './kill-matrix/summarize.ts'
import { BATCH_KINDS } from './nemesis/batch-faults.ts'
import { batchFailures, describeMet } from './nemesis/batch-summary.ts'
import { FAULT_KINDS } from './nemesis/faults.ts'
import { describeTrial, isAboutBatches, type NemesisReport, runNemesis, trialSeeds } from './nemesis/run-nemesis.ts'
import { parseOn } from './stack/outer-services.ts'
import { describeBatches } from './stack/stack-report.ts'

export const HELP = `Usage: npm run campaign -- nemesis [options]

Injects random faults, heals them, and compares the five ledgers.

  --trials <n>        number of trials (1800)
  --seed <n>          determines the seeds of the trials (1)
  --only <seed>       one trial by its own seed, as printed in a report
  --stacks <n>        concurrent stacks that share the trials (1)
  --at-once <n>       concurrent trials of a stack (4)
  --blocks <seconds>  between blocks, so that more payments share a batch (each transaction at once)
  --kinds <kinds>     only these faults, or "batches" for those of batches: then each trial pays several calls at once,
                      its faults wait for a batch of them, and the run fails when there are hardly any
  --without <kinds>   faults to leave out, of ${FAULT_KINDS.join(', ')}
  --on <services>     redis, s3 or redis,s3: services started for the campaign (PostgreSQL and a folder)
  --verbose           print a line for every trial
  --json <file>       write the report to this file`

/**
 * Runs the command. Returns exit code 1 for any violation, stuck job, unanswered client, leftover process or broken
 * trial.
 */
export async function run(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      trials: { type: 'string', default: '1800' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      stacks: { type: 'string', default: '1' },
      'at-once': { type: 'string', default: '4' },
      kinds: { type: 'string' },
      blocks: { type: 'string' },
      without: { type: 'string', default: '' },
      on: { type: 'string', default: '' },
      json: { type: 'string' },
      verbose: { type: 'boolean', default: false },
    },
  })
  const left = new Set(values.without.split(','))
  const chosen = values.kinds === 'batches' ? BATCH_KINDS : values.kinds?.split(',')
  const kinds = FAULT_KINDS.filter(
    (kind) => !left.has(kind) && (chosen === undefined || (chosen as readonly string[]).includes(kind)),
  )
  const report = await runNemesis({
    seeds: values.only === undefined ? trialSeeds(Number(values.seed), Number(values.trials)) : [Number(values.only)],
    kinds,
    stacks: Number(values.stacks),
    atOnce: Number(values['at-once']),
    checkEvery: 50,
    blockSeconds: values.blocks === undefined ? undefined : Number(values.blocks),
    stack: { on: parseOn(values.on) },
    isVerbose: values.verbose,
    onProgress: (line) => console.log(line),
  })
  const failures = [...failuresOf(report), ...(isAboutBatches({ kinds }) ? batchFailures(report, kinds) : [])]
  for (const line of renderReport(report, failures)) console.log(line)
  if (values.json !== undefined) await writeFile(values.json, JSON.stringify({ ...report, failures }, null, 2))
  return failures.length === 0 ? 0 : 1
}

/** Returns the reasons for which a run has failed; empty when it has passed. */
export function failuresOf(report: NemesisReport): readonly string[] {
  const { violations, stuckJobs, leftProcesses, trials } = report
  return [
    ...violations.map(
      ({ invariant, detail, jobId, seed }) => `${invariant}: ${detail} (job ${jobId}, trial ${seed ?? 'unknown'})`,
    ),
    ...stuckJobs.map((id) => `job ${id} never finished`),
    ...leftProcesses.map((pid) => `process ${pid} outlived its stack`),
    ...trials.flatMap((trial) => (trial.error === null ? [] : describeTrial(trial))),
    ...trials.flatMap((trial) =>
      trial.calls
        .filter(({ outcome }) => outcome === 'gave_up')
        .map((call) => `a client gave up in ${describeTrial(trial)}; ${describeEnd(call)}`),
    ),
  ]
}

/** Returns what kept a client from its final answer. */
function describeEnd({ problems, answers }: CallRecord): string {
  const last = answers.at(-1)
  return [
    ...problems,
    `out of patience, last answer ${last ? `${last.status} ${last.code ?? ''}`.trim() : 'none'}`,
  ].join('; ')
}

function renderReport(report: NemesisReport, failures: readonly string[]): readonly string[] {
  const { trials } = report
  const calls = trials.flatMap((trial) => trial.calls)
  const count = (outcome: string) => calls.filter((call) => call.outcome === outcome).length
  const recoveries = trials.map(({ recoveryMs }) => recoveryMs)
  return [
    '',
    `trials          ${trials.length} in ${Math.round(report.durationMs / 1000)} s (${Math.round(report.durationMs / trials.length)} ms each)`,
    `calls           ${calls.length}: ${count('released')} released, ${count('refused')} refused, ${count('gave_up')} gave up`,
    `batches         ${describeBatches(report.batches)}`,
    ...describeMet(trials).map((line) => `                ${line}`),
    `ledgers         ${report.jobs} jobs, ${report.transfers} transfers, ${report.upstreamCalls} upstream calls`,
    `recovery        p50 ${percentile(recoveries, 0.5)} ms, p99 ${percentile(recoveries, 0.99)} ms, longest ${percentile(recoveries, 1)} ms`,
    `failures        ${failures.length}`,
    ...failures.map((failure) => `  ${failure}`),
  ]
}
