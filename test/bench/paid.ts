import { callRpc } from '../../infra/sandbox/chain/json-rpc.ts'
import { atLeast, atMost, type BenchOptions, type BenchResult, type Ratio, runBench } from './measuring/bench.ts'
import { type CallBudget, describeBudget, describeStatementTimes, measureCallBudget } from './measuring/call-budget.ts'
import {
  CONTESTANT_NAMES,
  type Contestant,
  type ContestantName,
  isOurs,
  startContestant,
} from './measuring/contestants.ts'
import { createPayers, type LoadResult, payAny, signCalls } from './measuring/paid-load.ts'
import { mapValues, readCpuMs, readRssBytes } from './measuring/process-usage.ts'

const PAYERS = 16
/**
 * Until V8 has optimized what is called often in all processes: at 64 at once the middleware answers 140 calls a second after 500
 * and 146 after 2,000, our two 213 and 236. With more, anvil takes longer for each block.
 */
const [WARM_UP_CALLS, QUICK_WARM_UP_CALLS] = [2000, 60]

interface Setting {
  /** The chain's block interval; absent: it mines each transaction immediately. */
  readonly blockSeconds?: number
  readonly upstreamMs: number
  readonly concurrency: number
  readonly calls: number
}

/** Each setting takes five to twenty seconds on the development machine. The first is the one that Base resembles. */
const SETTINGS: readonly Setting[] = [
  { blockSeconds: 2, upstreamMs: 300, concurrency: 64, calls: 384 },
  { blockSeconds: 2, upstreamMs: 300, concurrency: 256, calls: 1024 },
  { blockSeconds: 2, upstreamMs: 300, concurrency: 1000, calls: 2000 },
  { upstreamMs: 0, concurrency: 1, calls: 150 },
  { upstreamMs: 0, concurrency: 16, calls: 600 },
  { upstreamMs: 0, concurrency: 64, calls: 600 },
  { upstreamMs: 300, concurrency: 1, calls: 60 },
  { upstreamMs: 300, concurrency: 16, calls: 320 },
  { upstreamMs: 300, concurrency: 64, calls: 600 },
]
const QUICK_SETTINGS: readonly Setting[] = [
  { blockSeconds: 1, upstreamMs: 0, concurrency: 32, calls: 64 },
  { upstreamMs: 0, concurrency: 1, calls: 30 },
  { upstreamMs: 0, concurrency: 16, calls: 150 },
]

/** Messages and statements of a call, counted in separate runs. */
const BUDGETS = [
  { who: 'farebox, Redis', concurrency: 16 },
  { who: 'farebox, Redis', concurrency: 64 },
  { who: 'x402-express', concurrency: 16 },
] as const
const [BUDGET_CALLS, QUICK_BUDGET_CALLS] = [400, 50]
/** Of PostgreSQL's statements, those that are printed. */
const LONGEST_STATEMENTS = 8

/** How often the processes' memory is read during a run. */
const MEMORY_INTERVAL_MS = 100
/** The most milliseconds of a call alone whose upstream answers immediately. */
const MOST_ALONE_MS = 20
/** The most processor time of a paid call in API and worker, by the number of calls at once. */
const MOST_CPU_MS: ReadonlyMap<number, number> = new Map([
  [1, 15],
  [64, 5],
])
/** The most memory of API and worker during a run. */
const MOST_MEBIBYTES = 450
/** The most calls of an RPC node for each of many paid calls. */
const MOST_RPC_CALLS = 2

interface Measurement extends LoadResult {
  readonly who: ContestantName
  readonly setting: Setting
  /** Processor time per call, by kind of process. */
  readonly cpuMs: Readonly<Record<string, number>>
  /** The highest resident memory, by kind of process. */
  readonly peakBytes: Readonly<Record<string, number>>
  readonly timings: Readonly<Record<string, number>>
}

/**
 * Measures paid chats end to end: farebox with ledger, worker and queue (in PostgreSQL and on Redis) against express with the
 * official middleware and its facilitator in the same process. Each measurement has a fresh chain; payments are signed before
 * the clock starts; every call must be answered and paid on chain.
 */
await runBench(async ({ quick, only }: BenchOptions): Promise<BenchResult> => {
  const measurements: Measurement[] = []
  for (const setting of quick ? QUICK_SETTINGS : SETTINGS)
    if (describe(setting).includes(only ?? ''))
      for (const who of CONTESTANT_NAMES)
        measurements.push(await measure(who, setting, quick ? QUICK_WARM_UP_CALLS : WARM_UP_CALLS))
  const budgets: CallBudget[] = []
  if (only === undefined)
    for (const { who, concurrency } of BUDGETS)
      budgets.push(await measureCallBudget(who, quick ? QUICK_BUDGET_CALLS : BUDGET_CALLS, concurrency))
  return {
    notes: budgets.flatMap((budget) => [describeBudget(budget), ...describeStatementTimes(budget, LONGEST_STATEMENTS)]),
    details: { budgets, measurements },
    rows: measurements.map(rowOf),
    ratios: [...ratiosOf(measurements), ...budgets.flatMap(rpcRatiosOf)],
    limitedBy:
      'processor time: client, chain, services and database share the cores (see the CPU columns, in ms per call)',
  }
})

async function measure(who: ContestantName, setting: Setting, warmUpCalls: number): Promise<Measurement> {
  const { blockSeconds, upstreamMs, concurrency, calls: count } = setting
  const contestant = await startContestant(who, { upstreamDelayMs: upstreamMs })
  try {
    const payers = await createPayers(contestant.rpcUrl, PAYERS)
    const signed = await signCalls(contestant.baseUrl, payers, warmUpCalls + count)
    const [warmUp, calls] = [signed.slice(0, warmUpCalls), signed.slice(warmUpCalls)]
    const warmedUp = await payAny(contestant.baseUrl, warmUp, 16)
    await contestant.analyzeTables()
    await contestant.readTimings()
    const { pids } = contestant
    if (blockSeconds !== undefined) await callRpc(contestant.rpcUrl, 'evm_setIntervalMining', [blockSeconds])
    const memory = watchMemory(pids)
    const before: Record<string, number> = { ...readCpuMs(pids), client: ownCpuMs() }
    const load = await payAny(contestant.baseUrl, calls, concurrency)
    const after: Record<string, number> = { ...readCpuMs(pids), client: ownCpuMs() }
    const peakBytes = memory.stop()
    const failures = [...warmedUp.failures, ...load.failures]
    if (isOurs(who)) await requireTransfers(contestant, signed.length, failures)
    const cpuMs = mapValues(after, (ms, name) => (ms - (before[name] ?? 0)) / count)
    return { who, setting, ...load, failures, cpuMs, peakBytes, timings: await contestant.readTimings() }
  } finally {
    await contestant.stop()
  }
}

/** Throws unless every call was paid. The stock integration may fail payments under load, which the table shows. */
async function requireTransfers(contestant: Contestant, calls: number, failures: readonly string[]): Promise<void> {
  const transfers = await contestant.countTransfers()
  if (transfers === calls && failures.length === 0) return
  throw new Error(`${calls} calls, ${transfers} transfers, ${failures.length} failed calls; the first: ${failures[0]}`)
}

/** Reads the memory of processes until it is stopped; returns the highest figures in bytes. */
function watchMemory(pids: Readonly<Record<string, number>>): { stop(): Record<string, number> } {
  let peaks = mapValues(pids, readRssBytes)
  const read = () => {
    peaks = mapValues(pids, (pid, name) => Math.max(peaks[name] ?? 0, readRssBytes(pid)))
  }
  const timer = setInterval(read, MEMORY_INTERVAL_MS)
  return {
    stop: () => {
      clearInterval(timer)
      read()
      return peaks
    },
  }
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function describe({ blockSeconds, upstreamMs, concurrency }: Setting): string {
  const blocks = blockSeconds === undefined ? 'automine' : `blocks of ${blockSeconds} s`
  return `${blocks}, ${upstreamMs} ms upstream, at ${concurrency}`
}

function rowOf({ who, setting, perSecond, p50Ms, p99Ms, failures, cpuMs, peakBytes }: Measurement) {
  const { client = 0, ...others } = cpuMs
  const mebibytesOf = (name: string) => Math.round((peakBytes[name] ?? 0) / 2 ** 20)
  return {
    blocks: setting.blockSeconds === undefined ? 'automine' : `${setting.blockSeconds} s`,
    'upstream ms': setting.upstreamMs,
    concurrency: setting.concurrency,
    who,
    'calls/s': perSecond,
    'p50 ms': p50Ms,
    'p99 ms': p99Ms,
    failed: failures.length,
    'CPU ms': serviceMs(cpuMs),
    ...Object.fromEntries(Object.entries(others).map(([name, ms]) => [`of ${name}`, ms])),
    'client ms': client,
    'API MiB': mebibytesOf('api'),
    'worker MiB': mebibytesOf('worker'),
    ...(failures[0] === undefined ? {} : { 'first failure': failures[0].slice(0, 120) }),
  }
}

/** Returns the processor time of a call in all processes but the client. */
function serviceMs(cpuMs: Measurement['cpuMs']): number {
  const { client = 0 } = cpuMs
  return Object.values(cpuMs).reduce((sum, ms) => sum + ms, 0) - client
}

function ratiosOf(measurements: readonly Measurement[]): readonly Ratio[] {
  return measurements
    .filter(({ who }) => isOurs(who))
    .flatMap((ours) => {
      const theirs = measurements.find(({ who, setting }) => !isOurs(who) && setting === ours.setting)
      return theirs ? compare(ours, theirs) : []
    })
}

/** A few calls at once share less, so only those of many have a target. */
function rpcRatiosOf({ who, concurrency, rpcCalls }: CallBudget): readonly Ratio[] {
  if (!isOurs(who)) return []
  const what = `RPC calls of a paid call, at ${concurrency} (${who})`
  return [concurrency < 64 ? { what, value: rpcCalls } : atMost(MOST_RPC_CALLS, what, rpcCalls)]
}

function compare(ours: Measurement, theirs: Measurement): readonly Ratio[] {
  const { blockSeconds, upstreamMs, concurrency } = ours.setting
  const where = `${describe(ours.setting)} (${ours.who})`
  const rate = ours.perSecond / theirs.perSecond
  const rates = [atLeast(leastRate(ours.setting), `calls/s ÷ the middleware’s, ${where}`, rate)]
  const latency: Ratio = { what: `p50 ÷ the middleware’s, ${where}`, value: ours.p50Ms / theirs.p50Ms }
  if (blockSeconds !== undefined) return [...rates, latency]
  const cpuOf = `processor ms of API and worker for a call, ${where}`
  const mostCpu = MOST_CPU_MS.get(concurrency)
  const cpu = (ours.cpuMs['api'] ?? 0) + (ours.cpuMs['worker'] ?? 0)
  return [
    ...rates,
    latency,
    mostCpu === undefined ? { what: cpuOf, value: cpu } : atMost(mostCpu, cpuOf, cpu),
    ...(concurrency === 1 && upstreamMs === 0 ? [atMost(MOST_ALONE_MS, `p50 ms, ${where}`, ours.p50Ms)] : []),
    atMost(MOST_MEBIBYTES, `MiB of API and worker, ${where}`, memoryOf(ours) / 2 ** 20),
  ]
}

function memoryOf({ peakBytes }: Measurement): number {
  return (peakBytes['api'] ?? 0) + (peakBytes['worker'] ?? 0)
}

/** Where the chain or the upstream sets the pace, level is all that can be. */
function leastRate({ blockSeconds, upstreamMs, concurrency }: Setting): number {
  if (blockSeconds !== undefined) return 1
  const [alone, some, many] = upstreamMs === 0 ? [1, 1.3, 1.6] : [0.98, 1.1, 1.4]
  if (concurrency === 1) return alone
  return concurrency < 64 ? some : many
}
