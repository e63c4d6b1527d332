import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Payer } from '../support/payer/payer.ts'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { type BenchResult, type Ratio, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { readRssBytes } from './measuring/process-usage.ts'
import { memoryEnvironment, readSettledMemory, type SettledMemory } from './measuring/settled-memory.ts'
import { fitLine, type Trend } from './measuring/statistics.ts'

const [DEFAULT_SECONDS, QUICK_SECONDS] = [300, 30]
const PAYERS = 16
const CONCURRENCY = 16
/** Calls between two memory samples. */
const [CALLS_PER_ROUND, QUICK_CALLS_PER_ROUND] = [250, 25]
/** Time for the workers' remaining tasks after the last answer, such as finishing queue messages. */
const SETTLE_DOWN_MS = 500
/** The share of samples to skip while code is compiled and pools and caches fill. */
const WARM_UP_SHARE = 0.25
const FEWEST_SAMPLES = 5

type ProcessName = 'api' | 'worker'
const PROCESSES: readonly ProcessName[] = ['api', 'worker']

interface Sample {
  readonly calls: number
  readonly seconds: number
  /** After a garbage collection. */
  readonly settled: Readonly<Record<ProcessName, SettledMemory>>
  readonly chainRss: number
}

/** Makes the same paid calls repeatedly, and measures whether API or worker keep memory for each. */
await runBench(async ({ quick, seconds }): Promise<BenchResult> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-memory-'))
  const sandbox = await startFarebox({ environmentOf: () => memoryEnvironment(directory) })
  try {
    const payers = await createPayers(sandbox.info.rpcUrl, PAYERS)
    const callsPerRound = quick ? QUICK_CALLS_PER_ROUND : CALLS_PER_ROUND
    const forMs = (seconds ?? (quick ? QUICK_SECONDS : DEFAULT_SECONDS)) * 1000
    const samples: Sample[] = []
    for (
      const startedAt = performance.now();
      samples.length < FEWEST_SAMPLES || performance.now() - startedAt < forMs;
    ) {
      await payRound(sandbox, payers, callsPerRound)
      samples.push(await takeSample(sandbox, directory, samples.at(-1), { callsPerRound, startedAt }))
    }
    return judge(samples)
  } finally {
    await sandbox.stop()
    await rm(directory, { recursive: true, force: true })
  }
})

async function payRound({ info }: TestSandbox, payers: readonly Payer[], count: number): Promise<void> {
  await payAll(info.baseUrl, await signCalls(info.baseUrl, payers, count), CONCURRENCY)
  // The simulated vendors' log grows with each call and is not part of the measurement.
  await fetch(`${info.upstreamUrl}/_simulator/calls`, { method: 'DELETE' })
  await delay(SETTLE_DOWN_MS)
}

async function takeSample(
  sandbox: TestSandbox,
  directory: string,
  last: Sample | undefined,
  { callsPerRound, startedAt }: { readonly callsPerRound: number; readonly startedAt: number },
): Promise<Sample> {
  const settle = (name: ProcessName) => readSettledMemory(directory, sandbox.pidOf(name), last?.settled[name])
  return {
    settled: { api: await settle('api'), worker: await settle('worker') },
    chainRss: readRssBytes(sandbox.pidOf('chain')),
    calls: (last?.calls ?? 0) + callsPerRound,
    seconds: (performance.now() - startedAt) / 1000,
  }
}

function judge(samples: readonly Sample[]): BenchResult {
  const counted = samples.slice(Math.floor(samples.length * WARM_UP_SHARE))
  const [first, last] = [counted[0], counted.at(-1)]
  if (!first || !last) throw new Error('no sample was taken')
  const trends = PROCESSES.flatMap((name) =>
    (['rss', 'heapUsed'] as const).map((kind) => ({ name, kind, trend: trendOf(counted, name, kind) })),
  )
  return {
    rows: trends.map(({ name, kind, trend }) => ({
      process: name,
      memory: kind === 'rss' ? 'RSS' : 'heap',
      samples: counted.length,
      calls: last.calls,
      'first MB': first.settled[name][kind] / 1e6,
      'last MB': last.settled[name][kind] / 1e6,
      'kB per 1,000 calls': trend.slope,
      '± (95 %)': trend.uncertainty,
    })),
    ratios: trends.map(ratioOf),
    notes: [`${last.calls} paid calls in ${last.seconds.toFixed(0)} s, signing and sampling included`],
    details: { samples },
    limitedBy: 'the duration: a leak smaller than the uncertainty is not visible',
  }
}

/** Returns the trend in kB per 1,000 calls. */
function trendOf(samples: readonly Sample[], name: ProcessName, kind: 'rss' | 'heapUsed'): Trend {
  return fitLine(samples.map(({ calls, settled }) => ({ x: calls / 1000, y: settled[name][kind] / 1000 })))
}

function ratioOf({ name, kind, trend }: { name: ProcessName; kind: 'rss' | 'heapUsed'; trend: Trend }): Ratio {
  return {
    what: `${name}: slope of ${kind === 'rss' ? 'RSS' : 'heap'} ÷ its uncertainty`,
    value: trend.slope / trend.uncertainty,
    target: '≤ 1 (no growth beyond noise)',
    isMet: trend.slope <= trend.uncertainty,
  }
}
