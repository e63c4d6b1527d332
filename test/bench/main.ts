import { fork } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { arch, cpus, loadavg, totalmem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { BenchResult } from './measuring/bench.ts'
import { renderRows } from './measuring/render-rows.ts'

const HERE = new URL('./', import.meta.url)

/** In this order; what else is in the folder comes after them. */
const ORDER = [
  'discovery',
  'unpaid',
  'paid',
  'phases',
  'audio-inspection',
  'signed-retry',
  'queue',
  'workers',
  'held-connections',
  'soak',
]

const HELP = `Usage: npm run bench [-- name …] [--quick] [--seconds N] [--json file]

  --quick      smoke tests of less than a minute each, whose figures say little
  --seconds N  how long the soak goes on; 300 when left out
  --json file  writes all figures, with the machine that they are of

Measurements: `

interface Finished {
  readonly name: string
  readonly seconds: number
  /** Of the machine when it ended: figures of a busy one compare only within their run. */
  readonly loadAverage: number
  readonly hasFailed: boolean
  /** `null` when it failed, and for a measurement that only prints. */
  readonly result: BenchResult | null
}

/** Runs measurements one after the other, each in a process of its own, and prints what they promise in one table. */
async function main(): Promise<number> {
  const { values, positionals: wanted } = parseArgs({
    allowPositionals: true,
    options: {
      quick: { type: 'boolean', default: false },
      seconds: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  const names = listNames()
  const unknown = wanted.filter((name) => !names.includes(name))
  if (unknown.length > 0 || values.help) {
    console.log(HELP + names.join(', '))
    return values.help ? 0 : 2
  }
  const given = [...(values.quick ? ['--quick'] : []), ...(values.seconds ? [`--seconds=${values.seconds}`] : [])]
  const finished: Finished[] = []
  for (const name of wanted.length > 0 ? wanted : names) finished.push(await measure(name, given))
  console.log(`\n${renderRows(finished.flatMap(summarize))}\n\n${describeMachine()}`)
  if (values.json !== undefined) {
    const report = { machine: describeMachine(), takenAt: new Date(), quick: values.quick, measurements: finished }
    await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`)
  }
  return finished.some(({ hasFailed }) => hasFailed) ? 1 : 0
}

function listNames(): readonly string[] {
  const present = readdirSync(HERE)
    .filter((file) => file.endsWith('.ts') && file !== 'main.ts')
    .map((file) => file.slice(0, -'.ts'.length))
  return [...ORDER.filter((name) => present.includes(name)), ...present.filter((name) => !ORDER.includes(name))]
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

/** A line for each ratio; one for a measurement that promises nothing. */
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

function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor'
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`
  return `${cpus().length} cores of ${model}, ${arch()}, ${memory}, Node ${process.version}, load ${loadavg()[0]?.toFixed(1)}`
}

process.exitCode = await main()
