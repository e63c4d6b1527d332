import { atLeast, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { mapValues, readCpuMs } from './measuring/process-usage.ts'

const UPSTREAM_MS = 300
/** So few that the workers' slots are the limit, and not the processor time. */
const JOBS_PER_WORKER = 4
const PAYERS = 16
const WARM_UP_CALLS = 60
/** The approximate duration of a measurement. */
const [SECONDS, QUICK_SECONDS] = [12, 2]
const LEAST_RATIO = 1.9

/** Measures paid chats on one, two and four workers with four slots each, behind one API. There is always more work than slots. */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const rows: Awaited<ReturnType<typeof measure>>[] = []
  for (const workers of [1, 2, 4]) rows.push(await measure(workers, quick ? QUICK_SECONDS : SECONDS))
  const [one = 0, two = 0, four = 0] = rows.map((row) => row['calls/s'])
  return {
    rows,
    ratios: [atLeast(LEAST_RATIO, 'two workers ÷ one', two / one), atLeast(LEAST_RATIO, 'four ÷ two', four / two)],
    limitedBy: `the workers’ slots (${JOBS_PER_WORKER} each, ${UPSTREAM_MS} ms upstream), until a core is full: see “cores busy”`,
  }
})

async function measure(workers: number, seconds: number) {
  const slots = workers * JOBS_PER_WORKER
  const sandbox = await startFarebox({
    workers,
    upstreamDelayMs: UPSTREAM_MS,
    workerEnvironment: { WORKER_CONCURRENCY: String(JOBS_PER_WORKER) },
  })
  try {
    const { info } = sandbox
    const payers = await createPayers(info.rpcUrl, PAYERS)
    const count = Math.ceil((slots * seconds * 1000) / UPSTREAM_MS)
    const signed = await signCalls(info.baseUrl, payers, WARM_UP_CALLS + count)
    await payAll(info.baseUrl, signed.slice(0, WARM_UP_CALLS), slots)
    const { operator: _, ...processes } = info.pids
    const pids = { ...processes, database: sandbox.pidOf('database'), upstream: sandbox.pidOf('upstream') }
    const before = readCpuMs(pids)
    const load = await payAll(info.baseUrl, signed.slice(WARM_UP_CALLS), slots * 3)
    const cpuMs = Object.values(mapValues(readCpuMs(pids), (ms, name) => ms - before[name]))
    return {
      workers,
      slots,
      calls: count,
      'calls/s': load.perSecond,
      'share of the slots’ limit': load.perSecond / ((slots * 1000) / UPSTREAM_MS),
      'cores busy': cpuMs.reduce((sum, ms) => sum + ms, 0) / 1000 / load.seconds,
    }
  } finally {
    await sandbox.stop()
  }
}
