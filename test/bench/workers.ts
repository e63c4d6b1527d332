import { atLeast, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { mapValues, readCpuMs } from './measuring/process-usage.ts'

const UPSTREAM_MS = 300
/** So few that the places of the workers run out before the machine's processor time does. */
const JOBS_AT_ONCE = 4
const PAYERS = 16
const WARM_UP_CALLS = 60
/** With each place taken for the upstream's time and a little more, about this many seconds. */
const [SECONDS, QUICK_SECONDS] = [12, 2]
const LEAST_RATIO = 1.9

/** Paid chats on one, two and four workers, each with four places, behind one API. There is always more work than places. */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const rows: Awaited<ReturnType<typeof measure>>[] = []
  for (const workers of [1, 2, 4]) rows.push(await measure(workers, quick ? QUICK_SECONDS : SECONDS))
  const [one = 0, two = 0, four = 0] = rows.map((row) => row['calls/s'])
  return {
    rows,
    ratios: [atLeast(LEAST_RATIO, 'two workers ÷ one', two / one), atLeast(LEAST_RATIO, 'four ÷ two', four / two)],
    limitedBy: `the workers’ places (${JOBS_AT_ONCE} each, ${UPSTREAM_MS} ms upstream), until a core is full: see “cores busy”`,
  }
})

async function measure(workers: number, seconds: number) {
  const places = workers * JOBS_AT_ONCE
  const sandbox = await startFarebox({ workers, jobsAtOnce: JOBS_AT_ONCE, upstreamDelayMs: UPSTREAM_MS })
  try {
    const { info, pidOf } = sandbox
    const payers = await createPayers(info.rpcUrl, PAYERS)
    const count = Math.ceil((places * seconds * 1000) / UPSTREAM_MS)
    const signed = await signCalls(info.baseUrl, payers, WARM_UP_CALLS + count)
    await payAll(info.baseUrl, signed.slice(0, WARM_UP_CALLS), places)
    const pids = { ...info.pids, database: pidOf('database'), upstream: pidOf('upstream') }
    const before = readCpuMs(pids)
    const load = await payAll(info.baseUrl, signed.slice(WARM_UP_CALLS), places * 3)
    const cpuMs = Object.values(mapValues(readCpuMs(pids), (ms, name) => ms - before[name]))
    return {
      workers,
      places,
      calls: count,
      'calls/s': load.perSecond,
      'of the places’ limit': load.perSecond / ((places * 1000) / UPSTREAM_MS),
      'cores busy': cpuMs.reduce((sum, ms) => sum + ms, 0) / 1000 / load.seconds,
    }
  } finally {
    await sandbox.stop()
  }
}
