import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { migrateQueue, type OpenedJobQueue, openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { type JobConsumer, QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { createTestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'

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

let redis: TestRedis

async function redisEngine(): Promise<Engine> {
  await redis.client.flushall()
  return { queueUrl: redis.url, stored: () => storedIn(redis), close: () => Promise.resolve() }
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

const idsIn = (text: string, jobIds: readonly string[]) => jobIds.filter((jobId) => text.includes(jobId))

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
