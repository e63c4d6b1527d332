import { randomUUID } from 'node:crypto'
import { type AddressInfo, connect, createServer } from 'node:net'
import { PostgresConnection, PostgresQueueBackend, Queue, runMigrations, withBackend } from 'bullmq'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, test, vi } from 'vitest'
import {
  migrateQueue,
  type OpenedJobQueue,
  openJobQueue,
  openRedisEngine,
} from '#shared/adapters/bullmq/bullmq-queue.ts'
import { connectRedis, createRedisClient } from '#shared/adapters/redis/redis-client.ts'
import { type JobConsumer, QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { startPostgresCounter } from '../../bench/measuring/postgres-counter.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { createTestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { DURABLE_REDIS, haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { until } from '../../support/until.ts'

const PREFIX = '{farebox-test}'
/** An engine under test: a separate queue and its stored content as text. */
interface Engine {
  readonly queueUrl: string
  stored(): Promise<string>
  close(): Promise<void>
}
async function postgresEngine(): Promise<Engine> {
  const ledger = await createTestLedger(2)
  return {
    queueUrl: ledger.url,
    stored: async () => {
      const tables = await ledger.sql<{ name: string }>(
        "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'farebox_queue' AND table_type = 'BASE TABLE'",
      )
      const rows = await Promise.all(
        tables.map(({ name }) => ledger.sql<{ row: string }>(`SELECT row::text FROM farebox_queue."${name}" AS row`)),
      )
      return rows
        .flat()
        .map(({ row }) => row)
        .join('\n')
    },
    close: () => ledger.close(),
  }
}
async function storedIn({ client }: TestRedis): Promise<string> {
  const read: Record<string, (key: string) => Promise<unknown>> = {
    string: (key) => client.get(key),
    hash: (key) => client.hgetall(key),
    list: (key) => client.lrange(key, 0, -1),
    set: (key) => client.smembers(key),
    zset: (key) => client.zrange(key, '0', '-1'),
    stream: (key) => client.xrange(key, '-', '+'),
  }
  const keys = await client.keys('*')
  const values = await Promise.all(keys.map(async (key) => [key, await read[await client.type(key)]?.(key)]))
  return JSON.stringify(values)
}
async function otherSessions(connectionString: string): Promise<number> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  const { rows } = await client.query<{ sessions: number }>(
    'SELECT count(*)::int AS sessions FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  )
  await client.end()
  return rows[0]?.sessions ?? 0
}
const idsIn = (text: string, jobIds: readonly string[]) => jobIds.filter((jobId) => text.includes(jobId))
const names = ['text', 'images', 'speech', 'transcriptions', 'settlement']

describe('the queue in PostgreSQL', () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database.drop())

  it('can drop and recreate its tables without changing the ledger', async () => {
    const ledger = await createTestLedger(2)
    const settings = { DATABASE_URL: ledger.url, QUEUE_PREFIX: PREFIX }
    const before = await ledger.fingerprint()
    await ledger.sql('DROP SCHEMA farebox_queue CASCADE')
    await expect(openJobQueue(settings, () => undefined)).rejects.toThrow(
      /^DATABASE_URL: the queue at .*cannot be used/,
    )
    await migrateQueue(ledger.url)
    const queue = await openJobQueue(settings, () => undefined)
    await queue.enqueue(randomUUID(), 'text')
    await queue.close()
    expect(await ledger.fingerprint()).toBe(before)
    await ledger.close()
  })

  it('uses few connections, whatever the number of queues', async () => {
    const ledger = await createTestLedger(2)
    const queue = await openJobQueue({ DATABASE_URL: ledger.url, QUEUE_PREFIX: PREFIX }, () => undefined)
    const delivered: string[] = []
    const consumer = queue.consume(new Map(QUEUE_NAMES.map((name) => [name, 8])), async (jobId) => {
      delivered.push(jobId)
    })
    for (let index = 0; index < 100; index += 1)
      await queue.enqueue(randomUUID(), QUEUE_NAMES[index % QUEUE_NAMES.length] ?? 'text')
    await expect.poll(() => delivered.length).toBe(100)
    const [{ count } = { count: '' }] = await ledger.sql<{ count: string }>(
      "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%farebox_queue%' OR application_name = 'text'",
    )
    expect(Number(count)).toBeLessThanOrEqual(7)
    await consumer.close(PATIENCE_MS)
    await queue.close()
    await ledger.close()
  })
})

describe('the queue of jobs', () => {
  let redis: TestRedis
  async function redisEngine(): Promise<Engine> {
    await redis.client.flushall()
    return { queueUrl: redis.url, stored: () => storedIn(redis), close: () => Promise.resolve() }
  }
  const engines = [
    { name: 'PostgreSQL', create: postgresEngine, missing: () => false },
    { name: 'Redis', create: redisEngine, missing: () => !haveRedis() },
  ]
  for (const { name, create, missing } of engines)
    describe.skipIf(missing())(`the queue in ${name}`, () => {
      let engine: Engine
      let queue: OpenedJobQueue
      let consumers: JobConsumer[]
      let errors: Error[]
      let release: () => void

      beforeAll(async () => {
        if (name === 'Redis') redis = await startTestRedis()
      })
      afterAll(async () => {
        if (name === 'Redis') await redis.stop()
      })
      beforeEach(async () => {
        engine = await create()
        errors = []
        consumers = []
        release = () => undefined
        queue = await open()
      })
      afterEach(async () => {
        release()
        for (const consumer of consumers) await consumer.close(PATIENCE_MS)
        await queue.close()
        await engine.close()
      })

      const open = () =>
        openJobQueue({ DATABASE_URL: engine.queueUrl, QUEUE_URL: engine.queueUrl, QUEUE_PREFIX: PREFIX }, (error) =>
          errors.push(error),
        )

      function consume(
        run: (jobId: string) => Promise<void>,
        concurrency: ReadonlyMap<QueueName, number> = new Map([['text', 4]]),
      ): JobConsumer {
        const consumer = queue.consume(concurrency, run)
        consumers.push(consumer)
        return consumer
      }

      const collect = (concurrency?: ReadonlyMap<QueueName, number>): string[] => {
        const delivered: string[] = []
        consume(async (jobId) => {
          delivered.push(jobId)
        }, concurrency)
        return delivered
      }

      it('delivers an id once, to one of two consumers with separate connections', async () => {
        const delivered = collect()
        const other = await open()
        const second = other.consume(new Map([['text', 4]]), async (jobId) => {
          delivered.push(jobId)
        })
        const jobIds = Array.from({ length: 30 }, () => randomUUID())
        await Promise.all(jobIds.map((jobId) => queue.enqueue(jobId, 'text')))
        await expect.poll(() => delivered.length).toBeGreaterThanOrEqual(30)
        // An id that is no longer stored cannot be delivered again.
        await expect.poll(async () => idsIn(await engine.stored(), jobIds)).toEqual([])
        await second.close(PATIENCE_MS)
        await other.close()
        expect([...delivered].sort()).toEqual([...jobIds].sort())
        expect(errors).toEqual([])
      })

      it('delivers nothing of a paused queue and everything of the others, until it is resumed', async () => {
        const [paused, other] = [randomUUID(), randomUUID()]
        await queue.enqueue(paused, 'text')
        const delivered: string[] = []
        const consumer = queue.consume(
          new Map([
            ['text', 4],
            ['images', 4],
          ]),
          async (jobId) => {
            delivered.push(jobId)
          },
          new Set(['text']),
        )
        consumers.push(consumer)
        await queue.enqueue(other, 'images')
        await expect.poll(() => delivered).toEqual([other])
        consumer.pause(new Set(['images']))
        await expect.poll(() => delivered).toEqual([other, paused])
        // Paused while it waited for a message, it may still take that one.
        const kept = Array.from({ length: 4 }, () => randomUUID())
        for (const jobId of kept) await queue.enqueue(jobId, 'images')
        const third = randomUUID()
        await queue.enqueue(third, 'text')
        await expect.poll(() => delivered).toContain(third)
        expect(idsIn(await engine.stored(), kept).length).toBeGreaterThanOrEqual(3)
        consumer.pause(new Set())
        await expect.poll(() => kept.every((jobId) => delivered.includes(jobId))).toBe(true)
        expect(errors).toEqual([])
      })

      it('counts the jobs that run, and a paused queue ends those that it has', async () => {
        const held = Promise.withResolvers<void>()
        release = held.resolve
        let ended = 0
        const consumer = consume(async () => {
          await held.promise
          ended += 1
        })
        expect(consumer.activeJobs()).toEqual(new Map([['text', 0]]))
        for (let index = 0; index < 3; index += 1) await queue.enqueue(randomUUID(), 'text')
        await expect.poll(() => consumer.activeJobs().get('text')).toBe(3)
        consumer.pause(new Set(['text']))
        release()
        await expect.poll(() => ended).toBe(3)
        await expect.poll(() => consumer.activeJobs().get('text')).toBe(0)
      })

      it('keeps an id for a later consumer', async () => {
        const jobId = randomUUID()
        await queue.enqueue(jobId, 'text')
        const delivered = collect()
        await expect.poll(() => delivered).toEqual([jobId])
      })

      it('delivers an id that was enqueued twice at least once and continues', async () => {
        const [twice, last] = [randomUUID(), randomUUID()]
        for (const jobId of [twice, twice, last]) await queue.enqueue(jobId, 'text')
        const delivered = collect(new Map([['text', 1]]))
        await expect.poll(() => delivered).toContain(last)
        expect(delivered.filter((id) => id === twice).length).toBeGreaterThanOrEqual(1)
      })

      it('delivers an id again that is enqueued again after it was consumed', async () => {
        const jobId = randomUUID()
        const delivered = collect()
        await queue.enqueue(jobId, 'text')
        await expect.poll(() => delivered.length).toBe(1)
        await queue.enqueue(jobId, 'text')
        await expect.poll(() => delivered.length).toBe(2)
      })

      it('stores a job’s id and deletes it after delivery', async () => {
        const jobId = randomUUID()
        await queue.enqueue(jobId, 'text')
        expect(await engine.stored()).toContain(jobId)
        const delivered = collect()
        await expect.poll(() => delivered).toEqual([jobId])
        await expect.poll(() => engine.stored()).not.toContain(jobId)
      })

      it('reports a handler that throws, does not retry the id, and continues', async () => {
        const [bad, good] = [randomUUID(), randomUUID()]
        const delivered: string[] = []
        consume(
          async (jobId) => {
            delivered.push(jobId)
            if (jobId === bad) throw new Error('the ledger is unreachable')
          },
          new Map([['text', 1]]),
        )
        await queue.enqueue(bad, 'text')
        await queue.enqueue(good, 'text')
        await expect.poll(() => delivered).toEqual([bad, good])
        await expect.poll(() => engine.stored()).not.toContain(bad)
        await expect.poll(() => errors.map(({ message }) => message)).toEqual(['the ledger is unreachable'])
      })

      it('runs jobs of a queue concurrently up to its limit', async () => {
        const blocked = Promise.withResolvers<void>()
        release = blocked.resolve
        let [running, most] = [0, 0]
        consume(
          async () => {
            running += 1
            most = Math.max(most, running)
            await blocked.promise
            running -= 1
          },
          new Map([['text', 3]]),
        )
        for (let index = 0; index < 6; index += 1) await queue.enqueue(randomUUID(), 'text')
        await expect.poll(() => running).toBe(3)
        await new Promise((resolve) => setTimeout(resolve, 200))
        expect(most).toBe(3)
      })

      it('takes settlements immediately while all generation slots are busy and more jobs wait', async () => {
        const blocked = Promise.withResolvers<void>()
        release = blocked.resolve
        const settlement = randomUUID()
        const delivered: string[] = []
        consume(
          async (jobId) => {
            delivered.push(jobId)
            if (jobId !== settlement) await blocked.promise
          },
          new Map(QUEUE_NAMES.map((queueName) => [queueName, 1])),
        )
        const generation = QUEUE_NAMES.filter((queueName) => queueName !== 'settlement')
        for (const queueName of [...generation, ...generation]) await queue.enqueue(randomUUID(), queueName)
        await expect.poll(() => delivered.length).toBe(generation.length)
        await queue.enqueue(settlement, 'settlement')
        await expect.poll(() => delivered).toContain(settlement)
        expect(delivered.length).toBe(generation.length + 1)
      })

      it('delivers only the queues that a consumer serves', async () => {
        const jobIds = new Map(QUEUE_NAMES.map((queueName) => [queueName, randomUUID()]))
        const delivered = collect(
          new Map([
            ['speech', 1],
            ['settlement', 1],
          ]),
        )
        for (const [queueName, jobId] of jobIds) await queue.enqueue(jobId, queueName)
        const expected = [jobIds.get('speech') ?? '', jobIds.get('settlement') ?? '']
        await expect.poll(() => [...delivered].sort()).toEqual([...expected].sort())
        await new Promise((resolve) => setTimeout(resolve, 200))
        expect(delivered.length).toBe(2)
        expect(await engine.stored()).toContain(jobIds.get('images'))
      })

      describe('closing a consumer', () => {
        it('waits for the running job when a consumer closes, and takes no other', async () => {
          let finished = 0
          const started = Promise.withResolvers<void>()
          const consumer = consume(
            async () => {
              started.resolve()
              await new Promise((resolve) => setTimeout(resolve, 400))
              finished += 1
            },
            new Map([['text', 1]]),
          )
          await queue.enqueue(randomUUID(), 'text')
          await queue.enqueue(randomUUID(), 'text')
          await started.promise
          await consumer.close(PATIENCE_MS)
          expect(finished).toBe(1)
        })

        it('stops waiting for a running job at the deadline of a close', async () => {
          const blocked = Promise.withResolvers<void>()
          release = blocked.resolve
          const started = Promise.withResolvers<void>()
          const consumer = consume(async () => {
            started.resolve()
            await blocked.promise
          })
          await queue.enqueue(randomUUID(), 'text')
          await started.promise
          await consumer.close(300)
          expect(await Promise.race([blocked.promise, Promise.resolve('still running')])).toBe('still running')
        })
      })
    })
})

describe('statements of the queue', () => {
  it('never asks PostgreSQL for delayed messages or rate limits', async () => {
    const ledger = await createTestLedger(2)
    const counter = await startPostgresCounter(ledger.url)
    const queue = await openJobQueue({ DATABASE_URL: counter.url, QUEUE_PREFIX: '{farebox-test}' }, () => undefined)
    const delivered: string[] = []
    const consumer = queue.consume(new Map([['text', 4]]), async (jobId) => {
      delivered.push(jobId)
    })
    try {
      const jobIds = [randomUUID(), randomUUID()]
      for (const jobId of jobIds) {
        await queue.enqueue(jobId, 'text')
        await expect.poll(() => delivered).toContain(jobId)
      }
      const seen = new Set<string>()
      const statements = () => {
        for (const statement of counter.take().keys()) seen.add(statement)
        return [...seen].join('\n')
      }
      await expect.poll(statements).toContain('move_to_active')
      await expect.poll(statements).toContain('move_to_completed_fetch')
      // After the last message the worker fetches once more and then waits.
      await new Promise((resolve) => setTimeout(resolve, 200))
      expect(statements()).not.toMatch(/next_signal|next_delay/)
      expect(await ledger.sql('SELECT 1 FROM farebox_queue.event')).toEqual([])
    } finally {
      await consumer.close(PATIENCE_MS)
      await queue.close()
      await counter.stop()
      await ledger.close()
    }
  })

  it('do not make PostgreSQL wait for the disk, as the job’s row repeats what a crash loses', async () => {
    const ledger = await createTestLedger(1)
    const client = new pg.Client({ connectionString: ledger.url })
    await client.connect()
    const setting = async () => (await client.query<{ synchronous_commit: string }>('SHOW synchronous_commit')).rows[0]
    try {
      await client.query('BEGIN')
      await client.query("SELECT farebox_queue.publish_event('text', 'added', '{}')")
      expect(await setting()).toEqual({ synchronous_commit: 'off' })
      await client.query('COMMIT')
      // Only of that transaction.
      expect(await setting()).toEqual({ synchronous_commit: 'on' })
    } finally {
      await client.end()
      await ledger.close()
    }
  })
})

describe('a Redis that does not answer', () => {
  test.skipIf(!haveRedis())(
    'accepts messages once Redis answers again when the queue was opened while it did not',
    async () => {
      const server = await startTestRedis()
      const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: server.port })
      const address = parseQueueUrl(`redis://127.0.0.1:${proxy.port}`)
      if (address.kind === 'postgres') throw new Error('expected an address of Redis')
      const engine = await openRedisEngine(address, '{farebox}', () => undefined)
      try {
        await proxy.setFault({ kind: 'blackhole' })
        const producer = engine.createProducer('text')
        producer.on('error', () => undefined)
        const message = { jobId: '6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b' }
        await expect(producer.add('run', message)).rejects.toThrow('Command timed out')
        await proxy.setFault(null)
        await producer.add('run', message)
        expect(await server.client.llen('{farebox}:text:wait')).toBeGreaterThan(0)
        await producer.close()
      } finally {
        await engine.close()
        await proxy.stop()
        await server.stop()
      }
    },
  )
})

describe('a Redis that another one takes over from', () => {
  test.skipIf(!haveRedis())(
    'enqueues and delivers at the other one, although the first one keeps its connections as a read-only replica',
    async () => {
      const [first, other] = [await startTestRedis(DURABLE_REDIS), await startTestRedis(DURABLE_REDIS)]
      // The address that follows the primary, as the host name of a managed service does.
      let primary = first.port
      const address = createServer((client) => {
        const server = connect(primary, '127.0.0.1')
        for (const [from, to] of [
          [client, server],
          [server, client],
        ] as const)
          from
            .on('error', () => to.destroy())
            .on('close', () => to.destroy())
            .pipe(to)
      })
      await new Promise<void>((resolve) => address.listen(0, '127.0.0.1', resolve))
      const { port } = address.address() as AddressInfo
      const settings = { DATABASE_URL: '', QUEUE_URL: `redis://127.0.0.1:${port}`, QUEUE_PREFIX: PREFIX }
      const queue = await openJobQueue(settings, () => undefined)
      const delivered: string[] = []
      const consumer = queue.consume(new Map([['text', 8]]), async (jobId) => void delivered.push(jobId))
      try {
        const [before, after] = [randomUUID(), randomUUID()]
        await queue.enqueue(before, 'text')
        await expect.poll(() => delivered).toEqual([before])
        primary = other.port
        await first.client.replicaof('127.0.0.1', other.port)
        // As the sweeper does.
        await until(() =>
          queue.enqueue(after, 'text').then(
            () => true,
            () => false,
          ),
        )
        await expect.poll(() => delivered).toContain(after)
      } finally {
        await consumer.close(PATIENCE_MS)
        await queue.close()
        address.close()
        await Promise.all([first.stop(), other.stop()])
      }
    },
  )
})

describe('defects of BullMQ that workarounds are for', () => {
  // BullMQ without the overrides of `shared/adapters/bullmq/workarounds.ts`. A failure means that upstream has changed:
  // remove the override that the test names.
  let database: TestDatabase
  beforeAll(async () => {
    database = await createTestDatabase()
  })

  // A connection without the overrides that is still closing would report its end as an error that nobody handles.
  afterAll(async () => {
    await until(async () => (await otherSessions(database.url)) === 0)
    await database.drop()
  })

  function connect(): PostgresConnection {
    const connection = new PostgresConnection({ connectionString: database.url, schema: 'farebox_queue' })
    onTestFinished(() => connection.close())
    return connection
  }
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

  test('NO_EVENTS: each message leaves rows about what happened to it', async () => {
    const plain = await createTestDatabase()
    const connection = new PostgresConnection({ connectionString: plain.url, schema: 'plain' })
    try {
      const { Queue: PlainQueue } = withBackend<PostgresQueueBackend, string>(
        (name, options) => new PostgresQueueBackend(connection, name, options, true),
      )
      await runMigrations(connection.pool, 'plain')
      const queue = new PlainQueue('text', { connection: plain.url })
      await queue.add('run', {})
      expect((await connection.pool.query('SELECT event FROM plain.event')).rows.length).toBeGreaterThan(1)
      await queue.close()
    } finally {
      await connection.close()
      await plain.drop()
    }
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
})
