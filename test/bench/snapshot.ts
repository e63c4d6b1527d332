import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { migrateQueue, openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { startPostgres } from '../../infra/sandbox/postgres/embedded-postgres.ts'
import { atMost, type BenchResult, runBench } from './measuring/bench.ts'
import { inParallel } from './measuring/in-parallel.ts'

const PREFIX = '{farebox-bench}'
/** Of a service with 27 calls a second in ten minutes. A report holds its snapshot for half of that at most. */
const [MESSAGES, QUICK_MESSAGES] = [16_000, 400]
const ROUNDS = 16
const CONCURRENCY = 16
/** PostgreSQL publishes what its sessions read at most once a second. */
const COUNTED_AFTER_MS = 2000

/**
 * Measures what messages of the queue in PostgreSQL cost beside an old snapshot, as a dump or a report holds it, which keeps
 * the versions of rows that PostgreSQL would remove. Against a queue in another database of the same server, which no
 * snapshot of this one concerns; in turns, so that both meet the same machine.
 */
await runBench(async ({ quick }): Promise<BenchResult> => {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-snapshot-'))
  const server = await startPostgres({ dataDirectory: join(directory, 'postgres') })
  try {
    return await measure(server.connectionString, (quick ? QUICK_MESSAGES : MESSAGES) / ROUNDS)
  } finally {
    await server.stop()
    await rm(directory, { recursive: true, force: true })
  }
})

async function measure(serverUrl: string, messages: number): Promise<BenchResult> {
  await run(serverUrl, 'CREATE DATABASE beside')
  await run(serverUrl, 'CREATE DATABASE apart')
  const [beside, apart] = await Promise.all(['beside', 'apart'].map((name) => openQueue(databaseOf(serverUrl, name))))
  if (!beside || !apart) throw new Error('expected two queues')
  const snapshot = new pg.Client({ connectionString: beside.url, application_name: 'farebox snapshot' })
  await snapshot.connect()
  try {
    for (const queue of [beside, apart]) await queue.pass(messages)
    await snapshot.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class')
    const rows: ReturnType<typeof compare>[] = []
    for (let round = 1; round <= ROUNDS; round += 1) {
      const [near, far] = [await beside.pass(messages), await apart.pass(messages)]
      rows.push(compare(round * messages, near, far))
    }
    const timesAsLong = (count: number) => {
      const sum = (name: 'ms a message' | 'in another database') =>
        rows.slice(0, count).reduce((total, row) => total + row[name], 0)
      return sum('ms a message') / sum('in another database')
    }
    const what = 'messages beside a snapshot, time ÷ in another database'
    return {
      rows,
      ratios: [
        atMost(2, `the first ${(messages * ROUNDS) / 2} ${what}`, timesAsLong(ROUNDS / 2)),
        { what: `all ${messages * ROUNDS} ${what}`, value: timesAsLong(ROUNDS) },
      ],
      limitedBy: 'PostgreSQL, which passes over the rows that it may not remove',
    }
  } finally {
    await snapshot.end()
    await Promise.all([beside.close(), apart.close()])
  }
}

interface Passed {
  readonly ms: number
  readonly pages: number
  readonly transactions: number
}

function compare(count: number, beside: Passed, apart: Passed) {
  return {
    'messages since the snapshot': count,
    'ms a message': beside.ms,
    'in another database': apart.ms,
    'times as long': beside.ms / apart.ms,
    'pages a message': beside.pages,
    'pages in another database': apart.pages,
    'transactions a message': beside.transactions,
  }
}

function databaseOf(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Opens a queue that this process fills and empties. */
async function openQueue(url: string) {
  await migrateQueue(url)
  let isClosing = false
  const queue = await openJobQueue({ DATABASE_URL: url, QUEUE_PREFIX: PREFIX }, (error) => {
    if (!isClosing) console.error(error)
  })
  const waiting = new Map<string, () => void>()
  const consumer = queue.consume(new Map([['images', CONCURRENCY]]), async (jobId) => waiting.get(jobId)?.())
  /** Adds messages as fast as they are taken, so that hardly one waits, as in a service that keeps up. */
  const pass = async (count: number): Promise<Passed> => {
    const before = await readCounts(url)
    const startedAt = performance.now()
    await inParallel(Array.from({ length: count }), CONCURRENCY, async () => {
      const jobId = crypto.randomUUID()
      const arrived = new Promise<void>((resolve) => waiting.set(jobId, resolve))
      await queue.enqueue(jobId, 'images')
      await arrived
      waiting.delete(jobId)
    })
    const ms = (performance.now() - startedAt) / count
    const after = await readCounts(url)
    const transactions = (after.transactions - before.transactions) / count
    return { ms, pages: (after.pages - before.pages) / count, transactions }
  }
  return {
    url,
    pass,
    close: async () => {
      isClosing = true
      await consumer.close(5000)
      await queue.close()
    },
  }
}

/** Reads how many pages of the queue's tables were looked at so far, cached or not, and the number of transactions. */
async function readCounts(url: string) {
  await delay(COUNTED_AFTER_MS)
  const [row] = await run<{ pages: number; transactions: number }>(
    url,
    `SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::float8 AS pages,
       pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS transactions
     FROM pg_statio_user_tables`,
  )
  if (!row) throw new Error('a sum always returns one row')
  return row
}

async function run<Row extends pg.QueryResultRow>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}
