import { setTimeout as delay } from 'node:timers/promises'
import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import type { OuterServices } from '../../infra/sandbox/outer-services.ts'
import { DURABLE_REDIS, startTestRedis } from '../support/processes/redis-server.ts'
import type { TestSandbox } from '../support/processes/test-sandbox.ts'
import { type BenchResult, runBench } from './measuring/bench.ts'
import { startFarebox } from './measuring/farebox.ts'
import { inParallel } from './measuring/in-parallel.ts'
import { createPayers, payAll, signCalls } from './measuring/paid-load.ts'
import { readCpuMs } from './measuring/process-usage.ts'
import { median, percentile } from './measuring/statistics.ts'

const PREFIX = '{farebox-bench}'
const [JOBS, QUICK_JOBS] = [5000, 500]
const ADDING_CONCURRENCY = 16
const TAKING_CONCURRENCY = 16
/** For latency: so few that none waits for another. */
const [SINGLE_JOBS, QUICK_SINGLE_JOBS] = [300, 50]
const SINGLE_EVERY_MS = 20
const [PAID_CALLS, QUICK_PAID_CALLS] = [400, 50]
const WARM_UP_CALLS = 40
const PAID_CONCURRENCY = 16
const PAYERS = 8

/**
 * Measures the queue on Redis against the queue in PostgreSQL: messages added and taken by this process alone, then whole paid
 * calls with the time from a job's acceptance to its provider call.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const redis = await startTestRedis(DURABLE_REDIS)
  try {
    const rows = []
    for (const engine of ['PostgreSQL', 'Redis'] as const) {
      const outer = engine === 'Redis' ? { QUEUE_URL: redis.url, QUEUE_PREFIX: PREFIX } : undefined
      rows.push({ queue: engine, ...(await measure(outer, quick)) })
    }
    const [postgres, ours] = rows
    if (!postgres || !ours) throw new Error('expected two queues')
    return {
      rows,
      ratios: (['added/s', 'taken/s', 'paid calls/s'] as const).map((what) => ({
        what: `${what}, Redis ÷ PostgreSQL`,
        value: ours[what] / postgres[what],
      })),
      limitedBy:
        'adding and taking: this process, and in PostgreSQL a commit for each step; paid calls: everything but the queue',
    }
  } finally {
    await redis.stop()
  }
})

async function measure(outerServices: OuterServices | undefined, quick: boolean) {
  const sandbox = await startFarebox(outerServices ? { outerServices } : {})
  try {
    const paid = await measurePaidCalls(sandbox, quick ? QUICK_PAID_CALLS : PAID_CALLS)
    // A running worker would take messages as well.
    process.kill(sandbox.pidOf('worker'), 'SIGSTOP')
    try {
      return { ...(await measureMessages(sandbox, outerServices, quick)), ...paid }
    } finally {
      process.kill(sandbox.pidOf('worker'), 'SIGCONT')
    }
  } finally {
    await sandbox.stop()
  }
}

/** Measures messages in a queue that no other process reads while the sandbox's worker is stopped. */
async function measureMessages(sandbox: TestSandbox, outer: OuterServices | undefined, quick: boolean) {
  const queue = await openJobQueue(
    {
      DATABASE_URL: sandbox.info.databaseUrl,
      QUEUE_PREFIX: PREFIX,
      ...(outer?.['QUEUE_URL'] === undefined ? {} : { QUEUE_URL: outer['QUEUE_URL'] }),
    },
    (error) => console.error(error),
  )
  try {
    const jobIds = Array.from({ length: quick ? QUICK_JOBS : JOBS }, () => crypto.randomUUID())
    const addingMs = await time(() => inParallel(jobIds, ADDING_CONCURRENCY, (jobId) => queue.enqueue(jobId, 'images')))
    const waiting = new Map<string, () => void>()
    const taken = Promise.withResolvers<void>()
    const left = new Set<string>(jobIds)
    let consumer: ReturnType<typeof queue.consume> | undefined
    const takingMs = await time(() => {
      consumer = queue.consume(new Map([['images', TAKING_CONCURRENCY]]), async (jobId) => {
        waiting.get(jobId)?.()
        left.delete(jobId)
        if (left.size === 0) taken.resolve()
      })
      return taken.promise
    })
    const latenciesMs: number[] = []
    for (let index = 0; index < (quick ? QUICK_SINGLE_JOBS : SINGLE_JOBS); index++) {
      const jobId = crypto.randomUUID()
      latenciesMs.push(
        await time(async () => {
          const arrived = new Promise<void>((resolve) => waiting.set(jobId, resolve))
          await queue.enqueue(jobId, 'images')
          await arrived
        }),
      )
      await delay(SINGLE_EVERY_MS)
    }
    await consumer?.close(5000)
    return {
      'added/s': (jobIds.length / addingMs) * 1000,
      'taken/s': (jobIds.length / takingMs) * 1000,
      'delivery p50 ms': median(latenciesMs),
      'p99 ms': percentile(latenciesMs, 0.99),
    }
  } finally {
    await queue.close()
  }
}

async function measurePaidCalls(sandbox: TestSandbox, count: number) {
  const { info } = sandbox
  const payers = await createPayers(info.rpcUrl, PAYERS)
  const signed = await signCalls(info.baseUrl, payers, WARM_UP_CALLS + count)
  await payAll(info.baseUrl, signed.slice(0, WARM_UP_CALLS), PAID_CONCURRENCY)
  const pids = { api: sandbox.pidOf('api'), worker: sandbox.pidOf('worker'), database: sandbox.pidOf('database') }
  const before = readCpuMs(pids)
  const load = await payAll(info.baseUrl, signed.slice(WARM_UP_CALLS), PAID_CONCURRENCY)
  const after = readCpuMs(pids)
  const waits = await sandbox.sql<{ ms: number }>(
    `SELECT (extract(epoch FROM started_at - accepted_at) * 1000)::float8 AS ms
     FROM jobs JOIN upstream_attempts ON job_id = jobs.id ORDER BY accepted_at DESC LIMIT $1`,
    [count],
  )
  const waitsMs = waits.map(({ ms }) => ms)
  return {
    'paid calls/s': load.perSecond,
    'acceptance to provider p50 ms': median(waitsMs),
    'same p99 ms': percentile(waitsMs, 0.99),
    'CPU ms per call':
      Object.entries(after).reduce((sum, [name, ms]) => sum + ms - before[name as keyof typeof pids], 0) / count,
  }
}

async function time(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
