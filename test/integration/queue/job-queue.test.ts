import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { consumeJobs, createJobQueue, migrateQueue } from '#shared/adapters/bullmq/job-queue.ts'
import type { JobConsumer, JobQueue } from '#shared/jobs/job-queue.ts'
import { createTestLedger, type TestLedger } from '../../support/test-ledger.ts'

/** On a busy machine; usually some milliseconds. */
const QUICKLY_MS = 5000

let ledger: TestLedger
let queue: JobQueue
let consumers: JobConsumer[]
let errors: Error[]
let release: () => void

beforeEach(async () => {
  ledger = await createTestLedger(2)
  errors = []
  consumers = []
  release = () => undefined
  queue = createJobQueue(ledger.url, (error) => errors.push(error))
})
afterEach(async () => {
  release()
  for (const consumer of consumers) await consumer.close(1000)
  await queue.close()
  await ledger.close()
})

function consume(run: (jobId: string) => Promise<void>, concurrency = 4): JobConsumer {
  const consumer = consumeJobs({ queueUrl: ledger.url, concurrency, run, onError: (error) => errors.push(error) })
  consumers.push(consumer)
  return consumer
}

async function tables(): Promise<string[]> {
  const rows = await ledger.sql<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'farebox_queue' AND table_type = 'BASE TABLE'",
  )
  return rows.map(({ name }) => name)
}

/** Everything that the queue stores, as text. */
async function dump(): Promise<string> {
  const parts = await Promise.all(
    (await tables()).map((name) => ledger.sql<{ row: string }>(`SELECT row::text FROM farebox_queue."${name}" AS row`)),
  )
  return parts
    .flat()
    .map(({ row }) => row)
    .join('\n')
}

describe('an enqueued job id', () => {
  it('is delivered once to one of two consumers', async () => {
    const delivered: string[] = []
    for (let consumer = 0; consumer < 2; consumer += 1)
      consume(async (jobId) => {
        delivered.push(jobId)
      })
    const jobIds = Array.from({ length: 30 }, () => randomUUID())
    await Promise.all(jobIds.map((jobId) => queue.enqueue(jobId)))
    await expect.poll(() => delivered.length, { timeout: QUICKLY_MS }).toBeGreaterThanOrEqual(30)
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect([...delivered].sort()).toEqual([...jobIds].sort())
    expect(errors).toEqual([])
  })

  it('waits for a consumer that comes later', async () => {
    const jobId = randomUUID()
    await queue.enqueue(jobId)
    const delivered: string[] = []
    consume(async (id) => {
      delivered.push(id)
    })
    await expect.poll(() => delivered, { timeout: QUICKLY_MS }).toEqual([jobId])
  })

  it('given twice is delivered at least once and never stops the queue', async () => {
    const [twice, last] = [randomUUID(), randomUUID()]
    for (const jobId of [twice, twice, last]) await queue.enqueue(jobId)
    const delivered: string[] = []
    consume(async (id) => {
      delivered.push(id)
    }, 1)
    await expect.poll(() => delivered, { timeout: QUICKLY_MS }).toContain(last)
    expect(delivered.filter((id) => id === twice).length).toBeGreaterThanOrEqual(1)
  })

  it('can be given again after it was consumed', async () => {
    const jobId = randomUUID()
    const delivered: string[] = []
    consume(async (id) => {
      delivered.push(id)
    })
    await queue.enqueue(jobId)
    await expect.poll(() => delivered.length, { timeout: QUICKLY_MS }).toBe(1)
    await queue.enqueue(jobId)
    await expect.poll(() => delivered.length, { timeout: QUICKLY_MS }).toBe(2)
  })

  it('is all that the queue stores, and nothing of it stays after delivery', async () => {
    const jobId = randomUUID()
    await queue.enqueue(jobId)
    const stored = await ledger.sql<{ data: unknown }>('SELECT data FROM farebox_queue.job')
    expect(stored.map(({ data }) => (typeof data === 'string' ? JSON.parse(data) : data))).toEqual([{ jobId }])
    let done = false
    consume(async () => {
      done = true
    })
    await expect.poll(() => done, { timeout: QUICKLY_MS }).toBe(true)
    await expect.poll(async () => (await ledger.sql('SELECT 1 FROM farebox_queue.job')).length).toBe(0)
  })

  it('whose handler throws is reported, not repeated, and holds nothing up', async () => {
    const [bad, good] = [randomUUID(), randomUUID()]
    const delivered: string[] = []
    consume(async (jobId) => {
      delivered.push(jobId)
      if (jobId === bad) throw new Error('the ledger is gone')
    }, 1)
    await queue.enqueue(bad)
    await queue.enqueue(good)
    await expect.poll(() => delivered, { timeout: QUICKLY_MS }).toEqual([bad, good])
    expect(errors.map(({ message }) => message)).toEqual(['the ledger is gone'])
    expect(await dump()).not.toContain(bad)
  })
})

it('a consumer runs as many jobs at once as it was told to, and no more', async () => {
  const held = Promise.withResolvers<void>()
  release = held.resolve
  let [running, most] = [0, 0]
  consume(async () => {
    running += 1
    most = Math.max(most, running)
    await held.promise
    running -= 1
  }, 3)
  for (let index = 0; index < 6; index += 1) await queue.enqueue(randomUUID())
  await expect.poll(() => running, { timeout: QUICKLY_MS }).toBe(3)
  await new Promise((resolve) => setTimeout(resolve, 200))
  expect(most).toBe(3)
})

describe('closing a consumer', () => {
  it('waits for the job that is running', async () => {
    let finished = false
    const started = Promise.withResolvers<void>()
    const consumer = consume(async () => {
      started.resolve()
      await new Promise((resolve) => setTimeout(resolve, 400))
      finished = true
    })
    await queue.enqueue(randomUUID())
    await started.promise
    await consumer.close(10_000)
    expect(finished).toBe(true)
  })

  it('leaves a job that hangs to its lease when the deadline comes', async () => {
    const held = Promise.withResolvers<void>()
    release = held.resolve
    const started = Promise.withResolvers<void>()
    const consumer = consume(async () => {
      started.resolve()
      await held.promise
    })
    await queue.enqueue(randomUUID())
    await started.promise
    const before = performance.now()
    await consumer.close(300)
    expect(performance.now() - before).toBeGreaterThanOrEqual(290)
    expect(performance.now() - before).toBeLessThan(2000)
  })
})

it('the queue’s tables can be dropped and made again, and the ledger stays', async () => {
  await queue.enqueue(randomUUID())
  const before = await ledger.fingerprint()
  await queue.close()
  await ledger.sql('DROP SCHEMA farebox_queue CASCADE')
  await migrateQueue(ledger.url)
  queue = createJobQueue(ledger.url, (error) => errors.push(error))
  const jobId = randomUUID()
  const delivered: string[] = []
  consume(async (id) => {
    delivered.push(id)
  })
  await queue.enqueue(jobId)
  await expect.poll(() => delivered, { timeout: QUICKLY_MS }).toEqual([jobId])
  expect(await ledger.fingerprint()).toBe(before)
})

it('enqueuing into a database that is gone fails instead of losing the job silently', async () => {
  await queue.close()
  await ledger.sql('DROP SCHEMA farebox_queue CASCADE')
  queue = createJobQueue(ledger.url, (error) => errors.push(error))
  await expect(queue.enqueue(randomUUID())).rejects.toThrow('not initialized')
})
