import { randomUUID } from 'node:crypto'
import { createServer, type Server } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { CONSUMER_RETRY_MS } from '#shared/adapters/bullmq/queue-engine.ts'
import { listenForOutcomes } from '#shared/ledger/outcome-listener.ts'
import { createPool, type Sql } from '#shared/ledger/pool.ts'
import { inPipelinedTransaction, inTransaction } from '#shared/ledger/transaction.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { startTcpFaultProxy, type TcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

// An unhandled 'error' event ends a process; here it would fail the whole run.
let database: TestDatabase
let proxy: TcpFaultProxy
let url: string
beforeAll(async () => {
  database = await createTestDatabase()
  const real = new URL(database.url)
  proxy = await startTcpFaultProxy({ host: real.hostname, port: Number(real.port) })
  real.port = String(proxy.port)
  url = real.href
})
beforeEach(() => proxy.setFault(null))
afterAll(async () => {
  await proxy.stop()
  await database.drop()
})
function openPool() {
  const errors: Error[] = []
  const pool = createPool({
    connectionString: url,
    maximumConnections: 2,
    applicationName: 'lost connections',
    onError: (error) => errors.push(error),
    connectTimeoutMs: PATIENCE_MS,
  })
  return { pool, errors }
}
test('a connection lost during a statement fails its transaction only', async () => {
  const { pool } = openPool()
  await proxy.setFault(null)
  const failed = inTransaction(pool, async (sql) => {
    await proxy.setFault({ kind: 'lost_answer' })
    await sql.query('SELECT 1')
  })
  await expect(failed).rejects.toThrow(/terminated|ECONNRESET/)
  await proxy.setFault(null)
  expect(await inTransaction(pool, async (sql) => (await sql.query('SELECT 2 AS two')).rows)).toEqual([{ two: 2 }])
  await pool.end()
})
test('a connection lost between two statements fails its transaction only', async () => {
  const { pool } = openPool()
  const lost = Promise.withResolvers<void>()
  pool.once('connect', (client) => client.once('end', lost.resolve))
  const failed = inTransaction(pool, async (sql) => {
    await sql.query('SELECT 1')
    await proxy.setFault({ kind: 'refuse' })
    await lost.promise
    await sql.query('SELECT 2')
  })
  await expect(failed).rejects.toThrow(/not queryable|terminated|ECONNRESET/)
  await proxy.setFault(null)
  expect(await inTransaction(pool, async (sql) => (await sql.query('SELECT 3 AS three')).rows)).toEqual([{ three: 3 }])
  await pool.end()
})
test('a transaction whose process cannot be reached any more lets its locks go', async () => {
  const options = { connectionString: url, maximumConnections: 1, applicationName: 'cut off', onError: () => undefined }
  const pool = createPool({ ...options, idleTransactionMs: 500 })
  const cutOff = inTransaction(pool, async (sql) => {
    await sql.query('SELECT pg_advisory_xact_lock(4711)')
    await proxy.setFault({ kind: 'blackhole' })
    await elsewhere.query('SELECT pg_advisory_lock(4711)')
    await proxy.setFault(null)
    await sql.query('SELECT 1')
  })
  const elsewhere = new pg.Client({ connectionString: database.url })
  await elsewhere.connect()
  const error: unknown = await cutOff.catch((thrown: unknown) => thrown)
  expect([String(error), isConnectionFailure(error)]).toEqual([expect.stringMatching(/idle|terminat|queryable/), true])
  await elsewhere.end()
  await pool.end()
})
const write = async (sql: Sql) => (await sql.query('CREATE TABLE written (id int)')).command
test.each([
  ['a transaction', inTransaction],
  ['a pipelined transaction', inPipelinedTransaction],
])('%s at a server that has become a standby is an outage, and the next one has another connection', async (_, run) => {
  const options = { connectionString: url, maximumConnections: 1, applicationName: 'standby', onError: () => undefined }
  const pool = createPool(options)
  // A demoted primary that keeps its connections refuses writes in the same way.
  await pool.query('SET default_transaction_read_only = on')
  const error: unknown = await run(pool, write).catch((thrown: unknown) => thrown)
  expect([String(error), isConnectionFailure(error)]).toEqual([expect.stringContaining('read-only'), true])
  expect(await run(pool, write)).toBe('CREATE')
  await pool.query('DROP TABLE written')
  await pool.end()
})
test('a pool of a service limits its transactions, and one of a report does not', async () => {
  const options = { connectionString: url, maximumConnections: 1, applicationName: 'limits', onError: () => undefined }
  const [service, report] = [createPool(options), createPool({ ...options, statementTimeoutMs: 60_000 })]
  const statement = "SELECT current_setting('idle_in_transaction_session_timeout') AS shown"
  expect(await Promise.all([service, report].map(async (pool) => (await pool.query(statement)).rows))).toEqual([
    [{ shown: '10s' }],
    [{ shown: '0' }],
  ])
  await Promise.all([service.end(), report.end()])
})
test('a server that accepts connections and never answers is an outage, and the next connection works', async () => {
  const pool = createPool({
    connectionString: url,
    maximumConnections: 1,
    applicationName: 'lost connections',
    onError: () => undefined,
    connectTimeoutMs: 500,
  })
  await proxy.setFault({ kind: 'blackhole' })
  const thrown: unknown = await pool.query('SELECT 1').catch((error: unknown) => error)
  expect([String(thrown), isConnectionFailure(thrown)]).toEqual(['Error: timeout expired', true])
  await pool.end()
  await proxy.setFault(null)
  const { pool: healed } = openPool()
  expect((await healed.query('SELECT 2 AS two')).rows).toEqual([{ two: 2 }])
  await healed.end()
})
async function openQueue(run: (jobId: string) => Promise<void> = () => Promise.resolve()) {
  const delivered: string[] = []
  const opened = await openJobQueue({ DATABASE_URL: url, QUEUE_PREFIX: '{farebox-test}' }, () => undefined)
  const queue = { enqueue: (jobId: string) => opened.enqueue(jobId, 'text') }
  const consumer = opened.consume(new Map([['text', 4]]), async (jobId) => {
    delivered.push(jobId)
    await run(jobId)
  })
  const close = async () => {
    await consumer.close(PATIENCE_MS)
    await opened.close()
  }
  return { queue, delivered, close }
}
/** BullMQ's default pause, which a consumer replaces with `CONSUMER_RETRY_MS`. */
const DEFAULT_PAUSE_MS = 15_000
test('a queue whose connections are cut repeatedly resumes without the default pause of 15 s', async () => {
  const timers = vi.spyOn(globalThis, 'setTimeout')
  const pauses = () => timers.mock.calls.map(([, pauseMs]) => pauseMs)
  onTestFinished(() => timers.mockRestore())
  const [inProgress, held] = [randomUUID(), Promise.withResolvers<void>()]
  const { queue, delivered, close } = await openQueue(async (jobId) => {
    if (jobId === inProgress) await held.promise
  })
  await queue.enqueue(randomUUID())
  for (let round = 0; round < 10; round++) {
    const enqueued = Array.from({ length: 5 }, () => queue.enqueue(randomUUID()).catch(() => undefined))
    await delay(round * 3)
    await proxy.setFault(round % 2 === 0 ? { kind: 'lost_answer' } : { kind: 'refuse' })
    await delay(30)
    await proxy.setFault(null)
    await Promise.all(enqueued)
  }
  await queue.enqueue(inProgress)
  await expect.poll(() => delivered).toContain(inProgress)
  // The consumer cannot report the finished job without a connection, so it pauses.
  await proxy.setFault({ kind: 'refuse' })
  await expect.poll(() => queue.enqueue(randomUUID()).catch((error: Error) => error.message)).toContain('ECONNREFUSED')
  held.resolve()
  await until(() => pauses().includes(CONSUMER_RETRY_MS))
  await proxy.setFault(null)
  const last = randomUUID()
  await queue.enqueue(last)
  await expect.poll(() => delivered).toContain(last)
  expect(pauses()).not.toContain(DEFAULT_PAUSE_MS)
  await close()
})
test('a queue that is unreachable at first is used as soon as it is reachable', async () => {
  await proxy.setFault({ kind: 'refuse' })
  const { queue, delivered, close } = await openQueue()
  await expect(queue.enqueue(randomUUID())).rejects.toThrow('ECONNREFUSED')
  await expect(queue.enqueue(randomUUID())).rejects.toThrow('ECONNREFUSED')
  await proxy.setFault(null)
  const last = randomUUID()
  await queue.enqueue(last)
  await expect.poll(() => delivered).toContain(last)
  await close()
})
/** Encodes a message of PostgreSQL's protocol. */
function message(type: string, content: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(content.length + 4)
  return Buffer.concat([Buffer.from(type), length, content])
}
/** Starts a server that sends "ready" and "shutting down" in one packet, as PostgreSQL does when both coincide. */
async function startTerminatingServer(): Promise<{ url: string; connections: () => number; stop(): void }> {
  let connections = 0
  const termination = Buffer.concat([
    message('R', Buffer.alloc(4)),
    message('Z', Buffer.from('I')),
    message('E', Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')),
  ])
  const server: Server = createServer((socket) => {
    connections += 1
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(termination))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  return {
    url: `postgres://farebox:secret@127.0.0.1:${port}/farebox`,
    connections: () => connections,
    stop: () => void server.close(),
  }
}
test('a connection that the server terminates at its start ends neither a pool’s process nor a queue’s', async () => {
  const server = await startTerminatingServer()
  const pool = createPool({
    connectionString: server.url,
    maximumConnections: 1,
    applicationName: 'lost connections',
    onError: () => undefined,
  })
  await expect(inTransaction(pool, (sql) => sql.query('SELECT 1'))).rejects.toThrow(/terminat|not queryable/)
  await pool.end()
  const queue = await openJobQueue({ DATABASE_URL: server.url, QUEUE_PREFIX: '{farebox-test}' }, () => undefined)
  const consumer = queue.consume(new Map([['text', 1]]), async () => undefined)
  await expect(queue.enqueue(randomUUID(), 'text')).rejects.toThrow(/terminat|not queryable/)
  await expect.poll(server.connections).toBeGreaterThan(4)
  await consumer.close(PATIENCE_MS)
  await queue.close()
  server.stop()
})
test('a connection that the server terminates at its start does not end the outcome listener', async () => {
  const server = await startTerminatingServer()
  const errors: unknown[] = []
  const listener = listenForOutcomes({
    connectionString: server.url,
    onOutcome: () => undefined,
    onError: (error) => errors.push(error),
  })
  await expect.poll(server.connections).toBeGreaterThan(1)
  await listener.close()
  server.stop()
  expect(errors.length).toBeGreaterThan(0)
})
