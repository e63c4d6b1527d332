import { fork } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { arch, cpus, loadavg, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { BenchResult } from './measuring/bench.ts'
import { renderRows } from './measuring/render-rows.ts'

const HERE = new URL('./', import.meta.url)

/** The measurements, in the order in which they run. Each is a file of this folder. */
const MEASUREMENTS: Readonly<Record<string, string>> = {
  discovery: 'requests/s of the catalog, against a bare Fastify',
  unpaid: 'unpaid 402 answers/s, against the official express middleware',
  paid: 'paid calls/s, latency and processor time, against the official express middleware',
  phases: 'where the time of a paid call goes',
  idle: 'statements, RPC calls, processor time and memory of API, worker and console while nobody calls',
  mcp: 'paid tool calls through /mcp, against the same calls at their endpoint',
  'audio-inspection': 'inspection of an MP3, against bare ffmpeg',
  'cold-quotes': 'the first quote of a recording, against the official express middleware with ffmpeg',
  'signed-retry': 'quote and signed retry of an upload, against bare ffmpeg',
  console: 'the operators’ pages over 1,000,000 calls, and what reading them costs paid calls',
  'ledger-size': 'paid and unpaid calls, sweepers, metrics and reports over 10 million calls, against an empty ledger',
  queue: 'the queue on Redis, against the queue in PostgreSQL',
  snapshot: 'messages of the queue in PostgreSQL beside an old snapshot, against a queue in another database',
  workers: 'paid calls/s with one, two and four workers',
  'held-connections': 'memory and wake-ups of 2,000 callers that wait at one API',
  soak: 'growth of memory under the same calls over time',
  'loop-delay': 'blocking of the API’s event loop by the largest bodies',
  settlement: 'settlements/s, against the official facilitator',
  'settlement-gas': 'gas of a settlement through the contract in batches, against one by one',
  client: 'the batch command, against a loop of the official client; a rerun of finished files; bytes sent',
  'upload-once': 'bytes and time of a call that prices a recording first, against uploading it twice',
  uploads: 'memory and answers of 64 concurrent uploads of 25 MiB',
  'worker-uploads': 'memory of a worker, under the manifests’ limit, with 64 paid uploads of 26 MB at the same time',
}

const HELP = `Usage: npm run bench [-- name …] [--quick] [--seconds N] [--only text] [--calls N] [--directory path] [--json file]

Runs the named measurements one after the other, or all of them, and prints their ratios with targets in one table. A
ratio compares two figures of the same run, so it can be compared between machines; absolute figures cannot.

  --quick      short runs that only show that a measurement works; their figures are not meaningful
  --seconds N  duration of the soak (default: 300)
  --only text  only the settings of 'paid' whose description contains the text, such as 'blocks' or 'at 64'
  --calls N    how many calls the ledger of 'ledger-size' has (default: 10 million, which takes 40 GB)
  --directory  where 'ledger-size' keeps that ledger and finds it again; by default it is removed
  --json file  write all figures and a description of the machine to this file
  --help       show this text

Measurements:
${Object.entries(MEASUREMENTS)
  .map(([name, text]) => `  ${name.padEnd(18)}${text}`)
  .join('\n')}`

interface Finished {
  readonly name: string
  readonly seconds: number
  /** The machine's load at the end: figures from a busy machine are comparable only within their run. */
  readonly loadAverage: number
  readonly hasFailed: boolean
  /** `null` for a measurement that failed or only prints. */
  readonly result: BenchResult | null
}

/** Runs measurements one after the other, each in a separate process, and prints their ratios in one table. */
async function main(): Promise<number> {
  const { values, positionals: wanted } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      only: { type: 'string' },
      calls: { type: 'string' },
      directory: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  const names = Object.keys(MEASUREMENTS)
  const unknown = wanted.filter((name) => !names.includes(name))
  if (values.help) {
    console.log(HELP)
    return 0
  }
  if (unknown.length > 0) {
    console.error(`Unknown measurement: ${unknown.join(', ')}. Available: ${names.join(', ')}.`)
    return 2
  }
  const given = [
    ...(values.quick ? ['--quick'] : []),
    ...(values.seconds ? [`--seconds=${values.seconds}`] : []),
    ...(values.only ? [`--only=${values.only}`] : []),
    ...(values.calls ? [`--calls=${values.calls}`] : []),
    ...(values.directory ? [`--directory=${values.directory}`] : []),
  ]
  const finished: Finished[] = []
  for (const name of wanted.length > 0 ? wanted : names) finished.push(await measure(name, given))
  console.log(`\n${renderRows(finished.flatMap(summarize))}\n\n${describeMachine()}`)
  if (values.json !== undefined) {
    const figures = Object.assign({}, ...finished.map(({ result }) => result?.figures)) as Record<string, number>
    const report = {
      ...figures,
      machine: describeMachine(),
      takenAt: new Date(),
      quick: values.quick,
      measurements: finished,
    }
    await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`)
  }
  return finished.some(({ hasFailed }) => hasFailed) ? 1 : 0
}

async function measure(name: string, given: readonly string[]): Promise<Finished> {
  console.log(`\n${name}`)
  const startedAt = performance.now()
  const child = fork(fileURLToPath(new URL(`${name}.ts`, HERE)), given)
  let result: BenchResult | null = null
  child.once('message', (message) => {
    result = message as BenchResult
  })
  const ended = Promise.withResolvers<number | null>()
  child.once('exit', ended.resolve)
  const code = await ended.promise
  const [loadAverage = 0] = loadavg()
  return { name, seconds: (performance.now() - startedAt) / 1000, loadAverage, hasFailed: code !== 0, result }
}

/** Returns a line for each ratio, or one line for a measurement without ratios. */
function summarize({ name, seconds, hasFailed, result }: Finished) {
  const common = { measurement: name, s: Math.round(seconds) }
  if (hasFailed || result === null) return [{ ...common, ratio: hasFailed ? 'FAILED' : 'see above' }]
  const { ratios, limitedBy } = result
  if (ratios.length === 0) return [{ ...common, ratio: '–', value: '', target: '', met: '', 'limited by': limitedBy }]
  return ratios.map(({ what, value, target = '', isMet }, index) => ({
    ...common,
    ratio: what,
    value: value.toFixed(2),
    target,
    met: isMet === undefined ? '' : isMet ? 'yes' : 'NO',
    'limited by': index === 0 ? limitedBy : '',
  }))
}

/** Returns the machine's description as one line. */
function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor'
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return `${cpus().length} cores of ${model}, ${arch()}, ${memory}, Node ${process.version}, load ${loadavg()[0]?.toFixed(1)}`
}

process.exitCode = await main()
