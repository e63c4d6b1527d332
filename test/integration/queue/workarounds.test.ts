import { randomUUID } from 'node:crypto'
import { PostgresConnection, PostgresQueueBackend, Queue, withBackend } from 'bullmq'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { connectRedis, createRedisClient } from '#shared/adapters/redis/redis-client.ts'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { haveRedis, startTestRedis } from '../../support/processes/redis-server.ts'

// BullMQ without the overrides of `shared/adapters/bullmq/workarounds.ts`. A failure means that upstream has changed:
// remove the override that the test names.

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

function connect(): PostgresConnection {
  const connection = new PostgresConnection({ connectionString: database.url, schema: 'farebox_queue' })
  onTestFinished(() => connection.close())
  return connection
}

const names = ['text', 'images', 'speech', 'transcriptions', 'settlement']

test('ErrorTolerantClient: BullMQ adds an error listener only after its listening client has connected', async () => {
  const connectClient = vi.spyOn(pg.Client.prototype as { connect(): Promise<pg.Client> }, 'connect')
  onTestFinished(() => connectClient.mockRestore())
  await connect().getListenClient()
  const [client] = connectClient.mock.contexts as unknown as pg.Client[]
  const errorListeners: number[] = []
  connectClient.mockImplementation(function recordListeners(this: pg.Client) {
    errorListeners.push(this.listenerCount('error'))
    return Promise.reject(new Error('not connected'))
  })
  await expect(connect().getListenClient()).rejects.toThrow('not connected')
  expect(client?.listenerCount('error')).toBe(1)
  expect(errorListeners).toEqual([0])
})

test('ErrorTolerantClient: pg emits the errors of a client that is checked out on that client', async () => {
  const pool = new pg.Pool({ connectionString: database.url })
  onTestFinished(() => pool.end())
  const client = await pool.connect()
  expect(client.listenerCount('error')).toBe(0)
  client.release()
})

test('ConnectionSharingBackend: closing one queue closes the connection that it shares with another', async () => {
  const connection = new PostgresConnection({ connectionString: database.url, schema: 'farebox_queue' })
  const [first] = names.map((name) => new PostgresQueueBackend(connection, name, { connection: database.url }, true))
  await first?.close()
  await expect(connection.pool.query('SELECT 1')).rejects.toThrow('after calling end')
})

test('ConnectionSharingBackend: a queue that does not own its connection does not forward its errors', () => {
  const connection = connect()
  expect(new PostgresQueueBackend(connection, 'text', { connection: database.url }, false)).toBeDefined()
  expect(connection.listenerCount('error')).toBe(0)
  // It would not listen again after a reconnection either.
  expect(connection.listenerCount('listenerinvalidated')).toBe(0)
})

test('ConnectionSharingBackend: an idle consumer asks for delayed messages and rate limits', async () => {
  const connection = connect()
  const { Worker } = withBackend<PostgresQueueBackend, string>(
    (name, options) => new PostgresQueueBackend(connection, name, options, true),
  )
  const run = vi.spyOn(PostgresQueueBackend.prototype as unknown as { run(statement: string): unknown }, 'run')
  onTestFinished(() => run.mockRestore())
  const worker = new Worker('text', () => Promise.resolve(), { connection: database.url })
  worker.on('error', () => undefined)
  await expect.poll(() => run.mock.calls.map(([statement]) => statement)).toContain('next_signal')
  await expect.poll(() => run.mock.calls.map(([statement]) => statement)).toContain('next_delay')
  await worker.close()
})

test('SharedPostgresConnection: queues on one connection send their LISTEN statements concurrently', async () => {
  const connection = connect()
  const client = await connection.getListenClient()
  const query = client.query.bind(client)
  let [running, most] = [0, 0]
  client.query = async (...parameters) => {
    running += 1
    most = Math.max(most, running)
    return await query(...parameters).finally(() => {
      running -= 1
    })
  }
  const backends = names.map((name) => new PostgresQueueBackend(connection, name, { connection: database.url }, true))
  await Promise.all(backends.map((backend) => backend.waitForJob(0.01)))
  expect(most).toBe(names.length)
})

test.skipIf(!haveRedis())(
  'REDIS_PRODUCER_OPTIONS: a queue whose version check failed rejects messages even after Redis answers again',
  async () => {
    const server = await startTestRedis()
    const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: server.port })
    const address = parseQueueUrl(`redis://127.0.0.1:${proxy.port}`)
    if (address.kind === 'postgres') throw new Error('expected an address of Redis')
    const client = createRedisClient(address, 'producer')
    client.on('error', () => undefined)
    await connectRedis(client)
    try {
      await proxy.setFault({ kind: 'blackhole' })
      const queue = new Queue('text', { connection: client, prefix: '{farebox}' })
      queue.on('error', () => undefined)
      await expect(queue.add('run', { jobId: randomUUID() })).rejects.toThrow('Command timed out')
      await proxy.setFault(null)
      await expect.poll(() => client.ping().catch(() => 'no answer')).toBe('PONG')
      await expect(queue.add('run', { jobId: randomUUID() })).rejects.toThrow('Command timed out')
    } finally {
      client.disconnect()
      await proxy.stop()
      await server.stop()
    }
  },
)
