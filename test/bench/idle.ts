import { setTimeout as delay } from 'node:timers/promises'
import { type RpcProxy, startRpcProxy } from '../support/chain/rpc-proxy.ts'
import { DURABLE_REDIS, startTestRedis } from '../support/processes/redis-server.ts'
import { atMost, type BenchResult, type Ratio, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { type PostgresCounter, startPostgresCounter } from './measuring/postgres-counter.ts'
import { mapValues, readCpuMs, readRssBytes } from './measuring/process-usage.ts'
import type { Row } from './measuring/render-rows.ts'

const PROCESSES = ['api', 'worker', 'operator'] as const
const [SECONDS, QUICK_SECONDS] = [60, 5]
/** What processes do once after their start is no rest. */
const SETTLING_MS = 5000
const [CALLS, QUICK_CALLS] = [1000, 50]
const PAYERS = 16
const SHOWN_CHARACTERS = 70
const MEBIBYTE = 2 ** 20

/**
 * Measures what API, worker and console do while nobody calls: processor time, statements and RPC calls a minute; and their
 * memory, at rest and after paid calls. With the queue in PostgreSQL, as in a sandbox, and on Redis, as in production.
 */
await runBench(async ({ quick, seconds = quick ? QUICK_SECONDS : SECONDS }): Promise<BenchResult> => {
  const rows: Row[] = []
  const ratios: Ratio[] = []
  for (const queue of ['PostgreSQL', 'Redis'] as const) {
    const idle = await measure(queue, seconds, quick ? QUICK_CALLS : CALLS)
    const add = (what: string, value: number, unit: string) => rows.push({ queue, what, value, unit })
    for (const name of PROCESSES) {
      add(`${name}: processor time`, idle.cpuMs[name], 'ms a minute')
      add(`${name}: memory at rest`, idle.restBytes[name] / MEBIBYTE, 'MiB')
      add(`${name}: memory after paid calls`, idle.busyBytes[name] / MEBIBYTE, 'MiB')
    }
    add('PostgreSQL: processor time', idle.cpuMs.database, 'ms a minute')
    for (const [text, times] of idle.statements) add(text.slice(0, SHOWN_CHARACTERS), times, 'a minute')
    for (const [method, times] of idle.rpc) add(method, times, 'RPC calls a minute')
    const total = PROCESSES.reduce((bytes, name) => bytes + idle.busyBytes[name], 0)
    ratios.push(
      atMost(450, `MiB of API, worker and console after paid calls, queue on ${queue}`, total / MEBIBYTE),
      { what: `statements a minute at rest, queue on ${queue}`, value: sumOf(idle.statements) },
      { what: `RPC calls a minute at rest, queue on ${queue}`, value: sumOf(idle.rpc) },
    )
  }
  return { rows, ratios, limitedBy: 'what each process asks for by the clock' }
})

type Counts = readonly (readonly [what: string, times: number])[]

async function measure(queue: 'PostgreSQL' | 'Redis', seconds: number, calls: number) {
  const stops: (() => Promise<void>)[] = []
  try {
    const redis = queue === 'Redis' ? await startTestRedis(DURABLE_REDIS) : null
    if (redis) stops.push(() => redis.stop())
    const counters: PostgresCounter[] = []
    let rpc: RpcProxy | undefined
    const counted = async (url: string) => {
      if (!url.startsWith('postgres:')) return url
      const counter = await startPostgresCounter(url)
      stops.push(() => counter.stop())
      counters.push(counter)
      return counter.url
    }
    const sandbox = await startFarebox({
      operator: true,
      ...(redis && { outerServices: { QUEUE_URL: redis.url, QUEUE_PREFIX: '{farebox-idle}' } }),
      connections: async (real) => {
        rpc = await startRpcProxy(real.rpcUrl)
        const databaseUrl = await counted(real.databaseUrl)
        return { ...real, rpcUrl: rpc.url, databaseUrl, queueUrl: await counted(real.queueUrl) }
      },
    })
    stops.push(async () => {
      await sandbox.stop()
      await rpc?.stop()
    })
    const pids = {
      api: sandbox.pidOf('api'),
      worker: sandbox.pidOf('worker'),
      operator: sandbox.pidOf('operator'),
      database: sandbox.pidOf('database'),
    }
    await delay(SETTLING_MS)
    for (const counter of counters) counter.take()
    const [before, earlierRpc, startedAt] = [readCpuMs(pids), rpc?.calls.length ?? 0, performance.now()]
    await delay(seconds * 1000)
    const minutes = (performance.now() - startedAt) / 60_000
    const after = readCpuMs(pids)
    const statements = counters.flatMap((counter) => [...counter.take()])
    const rpcCalls = [...Map.groupBy(rpc?.calls.slice(earlierRpc) ?? [], (method) => method)]
    const restBytes = mapValues(pids, readRssBytes)
    const { baseUrl, rpcUrl } = sandbox.info
    await payAll(baseUrl, await signCalls(baseUrl, await createPayers(rpcUrl, PAYERS), calls), PAYERS)
    return {
      cpuMs: mapValues(pids, (_, name) => (after[name] - before[name]) / minutes),
      restBytes,
      busyBytes: mapValues(pids, readRssBytes),
      statements: perMinute(statements, minutes),
      rpc: perMinute(
        rpcCalls.map(([method, all]) => [method, all.length] as const),
        minutes,
      ),
    }
  } finally {
    for (const stop of stops.toReversed()) await stop()
  }
}

/** Returns the counts a minute, the most frequent first. */
function perMinute(counts: Counts, minutes: number): Counts {
  return counts.map(([what, times]) => [what, times / minutes] as const).toSorted((one, other) => other[1] - one[1])
}

function sumOf(counts: Counts): number {
  return counts.reduce((sum, [, times]) => sum + times, 0)
}
