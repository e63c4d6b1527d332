import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { memoryEnvironment, readSettledMemory, type SettledMemory } from './measuring/settled-memory.ts'
import { percentile } from './measuring/statistics.ts'

const [CONNECTIONS, QUICK_CONNECTIONS] = [2000, 200]
const PAYERS = 32
/**
 * Enough for V8's young generation to reach its final size (134 MB on a machine with 24 GB): it grows with the process's
 * first work, however many callers are held.
 */
const [WARM_UP_CALLS, QUICK_WARM_UP_CALLS] = [1000, 100]
/** All calls must be accepted within this time. */
const ACCEPT_MS = 120_000

/**
 * Measures memory and wake-ups of callers held on one API. The worker is stopped until all calls are accepted, and then
 * finishes them. A wake-up is the time from the ledger's commit of a result to its arrival at the caller.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const count = quick ? QUICK_CONNECTIONS : CONNECTIONS
  const directory = await mkdtemp(join(tmpdir(), 'farebox-memory-'))
  const sandbox = await startFarebox({
    // Jobs wait in the queue until all calls are accepted.
    apiEnvironment: { MAXIMUM_QUEUE_AGE_SECONDS: '600' },
    environmentOf: (name) => (name === 'api' ? memoryEnvironment(directory) : {}),
  })
  try {
    return await measure(sandbox, directory, count, quick ? QUICK_WARM_UP_CALLS : WARM_UP_CALLS)
  } finally {
    await sandbox.stop()
    await rm(directory, { recursive: true, force: true })
  }
})

async function measure(
  sandbox: TestSandbox,
  directory: string,
  count: number,
  warmUpCalls: number,
): Promise<BenchResult> {
  const { info } = sandbox
  const payers = await createPayers(info.rpcUrl, PAYERS)
  const warmUp = await signCalls(info.baseUrl, payers, warmUpCalls)
  const calls = await signCalls(info.baseUrl, payers, count)
  await payAll(info.baseUrl, warmUp, 32)
  const before = await readSettledMemory(directory, sandbox.pidOf('api'))
  const receivedAt = new Map<string, number>()
  const worker = sandbox.pidOf('worker')
  process.kill(worker, 'SIGSTOP')
  const holding: Promise<unknown>[] = []
  let acceptedMs = 0
  const memory: SettledMemory[] = []
  try {
    // In two halves: what each caller of the second one adds is free of what the process needs only once.
    for (const half of [calls.slice(0, count / 2), calls.slice(count / 2)]) {
      const paying = payAll(info.baseUrl, half, half.length, {
        onPaid: (call, times) => {
          receivedAt.set(String(call.headers['x-idempotency-key']), times.receivedAt)
        },
      })
      // A failure is reported by the awaits below.
      paying.catch(() => undefined)
      holding.push(paying)
      const sendingAt = performance.now()
      await Promise.race([untilAccepted(sandbox, (memory.length + 1) * half.length), paying])
      acceptedMs += performance.now() - sendingAt
      memory.push(await readSettledMemory(directory, sandbox.pidOf('api'), memory.at(-1) ?? before))
    }
  } finally {
    process.kill(worker, 'SIGCONT')
  }
  const [halfHeld, held] = memory
  if (!halfHeld || !held) throw new Error('no memory was read')
  const wokenAt = performance.now()
  await Promise.all(holding)
  const wakingMs = performance.now() - wokenAt
  const wakeUps = await readWakeUps(sandbox, receivedAt)
  const after = await readSettledMemory(directory, sandbox.pidOf('api'), held)
  const kilobytesEach = (held.rss - before.rss) / 1024 / count
  return {
    rows: [
      {
        held: count,
        'accepted after s': acceptedMs / 1000,
        'RSS MB before': before.rss / 1e6,
        'held MB': held.rss / 1e6,
        'after MB': after.rss / 1e6,
        'RSS kB each': kilobytesEach,
        'of the second half': (held.rss - halfHeld.rss) / 1024 / (count / 2),
        'heap kB each': (held.heapUsed - before.heapUsed) / 1024 / count,
        'wake-ups/s': count / (wakingMs / 1000),
        'wake-up p50 ms': percentile(wakeUps, 0.5),
        'p99 ms': percentile(wakeUps, 0.99),
        'max ms': Math.max(...wakeUps),
      },
    ],
    ratios: [atMost(50, 'RSS kB for each held caller', kilobytesEach)],
    limitedBy:
      'wake-ups are as frequent as one worker’s settlements; each costs a NOTIFY, one read of the row and the response',
  }
}

async function untilAccepted(sandbox: TestSandbox, count: number): Promise<void> {
  for (const giveUpAt = Date.now() + ACCEPT_MS; Date.now() < giveUpAt; await delay(50)) {
    const [row] = await sandbox.sql<{ open: string }>("SELECT count(*) AS open FROM jobs WHERE state = 'accepted'")
    if (Number(row?.open) >= count) return
  }
  throw new Error(`not all of ${count} calls were accepted in time`)
}

/** Returns the times from the commit to the last byte at the caller; `finished_at` is the start of its transaction, so slightly early. */
async function readWakeUps(sandbox: TestSandbox, receivedAt: ReadonlyMap<string, number>): Promise<readonly number[]> {
  const rows = await sandbox.sql<{ idempotency_key: string; finished_ms: number }>(
    `SELECT idempotency_key, (extract(epoch FROM finished_at) * 1000)::float8 AS finished_ms FROM jobs
     WHERE idempotency_key = ANY($1)`,
    [[...receivedAt.keys()]],
  )
  return rows.map(({ idempotency_key, finished_ms }) => (receivedAt.get(idempotency_key) ?? 0) - finished_ms)
}
