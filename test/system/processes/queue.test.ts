import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type OpenedJobQueue, openJobQueue } from '#shared/adapters/bullmq/bullmq-queue.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { startTcpFaultProxy } from '../../support/http/tcp-fault-proxy.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { until } from '../../support/until.ts'

const PASSWORD = 'correct-horse'
const servers: TestRedis[] = []
const queues: OpenedJobQueue[] = []
afterEach(async () => {
  for (const queue of queues.splice(0)) await queue.close()
  for (const server of servers.splice(0)) await server.stop()
})
async function start(...options: string[]): Promise<TestRedis> {
  const server = await startTestRedis(options)
  servers.push(server)
  return server
}
async function open(queueUrl: string, errors: Error[] = []): Promise<OpenedJobQueue> {
  const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_URL: queueUrl, QUEUE_PREFIX: '{farebox}' }
  const queue = await openJobQueue(settings, (error) => errors.push(error))
  queues.push(queue)
  return queue
}
function collect(queue: OpenedJobQueue): string[] {
  const delivered: string[] = []
  queue.consume(new Map([['text', 2]]), async (jobId) => {
    delivered.push(jobId)
  })
  return delivered
}
async function messageOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => 'did not fail',
    (error: Error) => `${error.message} ${JSON.stringify(error.cause ?? null)}`,
  )
}

describe.skipIf(!haveRedis())('opening the queue', () => {
  it('opens while nothing listens at the address, reports that without the password, and delivers once Redis is there', async () => {
    const server = await start(`user farebox on >${PASSWORD} ~* +@all`)
    const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: server.port })
    onTestFinished(() => proxy.stop())
    await proxy.setFault({ kind: 'refuse' })
    const errors: Error[] = []
    const queue = await open(`redis://farebox:${PASSWORD}@127.0.0.1:${proxy.port}`, errors)
    const delivered = collect(queue)
    expect(errors[0]?.message).toContain(`QUEUE_URL: the queue at redis://127.0.0.1:${proxy.port} cannot be used`)
    expect(errors[0]?.message).toContain('ECONNREFUSED')
    expect(JSON.stringify(errors.map(({ message, cause }) => [message, cause]))).not.toContain(PASSWORD)
    await expect(queue.check()).rejects.toBeInstanceOf(Error)
    await expect(queue.enqueue(randomUUID(), 'text')).rejects.toBeInstanceOf(Error)
    await proxy.setFault(null)
    await expect.poll(() => queue.check().catch((error: Error) => error.message)).toBeUndefined()
    const jobId = randomUUID()
    await queue.enqueue(jobId, 'text')
    await expect.poll(() => delivered).toEqual([jobId])
  })

  it('reports a wrong password without showing it', async () => {
    const server = await start('requirepass something-else')
    const message = await messageOf(open(`redis://:${PASSWORD}@127.0.0.1:${server.port}`))
    expect(message).toContain('QUEUE_URL')
    expect(message).toMatch(/WRONGPASS|invalid password/)
    expect(message).not.toContain(PASSWORD)
  })

  it('opens with the right user, password and database', async () => {
    const server = await start(`user farebox on >${PASSWORD} ~* +@all`)
    const queue = await open(`redis://farebox:${PASSWORD}@127.0.0.1:${server.port}/3`)
    await queue.enqueue(randomUUID(), 'text')
    expect(await server.client.keys('*')).toEqual([])
    await server.client.select(3)
    const keys = await server.client.keys('*')
    expect(keys).toContain('{farebox}:text:wait')
    expect(keys.filter((key) => !key.startsWith('{farebox}:'))).toEqual([])
  })

  it.each(['allkeys-lru', 'volatile-ttl'])('rejects a Redis with maxmemory-policy %s', async (policy) => {
    const server = await start('maxmemory 50mb', `maxmemory-policy ${policy}`)
    const message = await messageOf(open(server.url))
    expect(message).toContain(`QUEUE_URL: the queue at ${server.url} cannot be used`)
    expect(message).toContain(`maxmemory-policy ${policy}`)
    expect(message).toContain('set maxmemory-policy noeviction')
  })

  it('opens after the connect timeout when the server never answers, and reports that', async () => {
    const server = await start()
    server.pause()
    const errors: Error[] = []
    await open(server.url, errors)
    expect(errors[0]?.message).toContain(`QUEUE_URL: the queue at ${server.url} cannot be used`)
  })

  it('does not pass the check of a Redis that may evict keys and was unreachable at first', async () => {
    const server = await start('maxmemory 50mb', 'maxmemory-policy allkeys-lru')
    const proxy = await startTcpFaultProxy({ host: '127.0.0.1', port: server.port })
    onTestFinished(() => proxy.stop())
    await proxy.setFault({ kind: 'refuse' })
    const errors: Error[] = []
    const queue = await open(`redis://127.0.0.1:${proxy.port}`, errors)
    await proxy.setFault(null)
    await expect.poll(() => errors.map(({ message }) => message).join()).toContain('set maxmemory-policy noeviction')
    expect(await messageOf(queue.check())).toContain('set maxmemory-policy noeviction')
  })

  it('stops while its Redis was never reached', async () => {
    const queue = await open(`redis://127.0.0.1:${await findFreePort()}`)
    const consumer = queue.consume(new Map([['text', 1]]), () => Promise.resolve())
    await consumer.close(1000)
    await queue.close()
  })
})

describe.skipIf(!haveRedis())('a failing Redis', () => {
  it('fails to enqueue while Redis is down, then enqueues and delivers once it is back', async () => {
    const server = await start()
    const queue = await open(server.url)
    const delivered = collect(queue)
    const before = randomUUID()
    await queue.enqueue(before, 'text')
    await expect.poll(() => delivered).toEqual([before])
    await server.kill()
    // Enqueuing does not wait for the server.
    await expect(queue.enqueue(randomUUID(), 'text')).rejects.toBeInstanceOf(Error)
    await server.restart()
    const after = randomUUID()
    await expect
      .poll(() =>
        queue.enqueue(after, 'text').then(
          () => 'enqueued',
          () => 'failed',
        ),
      )
      .toBe('enqueued')
    await expect.poll(() => delivered).toContain(after)
  })

  it('fails to enqueue while Redis hangs', async () => {
    const server = await start()
    const queue = await open(server.url)
    await queue.enqueue(randomUUID(), 'text')
    server.pause()
    // The server hangs until the end of the test.
    await expect(queue.enqueue(randomUUID(), 'text')).rejects.toBeInstanceOf(Error)
  })

  it('delivers messages that are enqueued after Redis was flushed', async () => {
    const server = await start()
    const queue = await open(server.url)
    const delivered = collect(queue)
    const first = randomUUID()
    await queue.enqueue(first, 'text')
    await expect.poll(() => delivered).toEqual([first])
    await server.client.flushall()
    await server.client.script('FLUSH')
    const second = randomUUID()
    await queue.enqueue(second, 'text')
    await expect.poll(() => delivered).toContain(second)
  })
})

describe.skipIf(!haveRedis())('Redis deployments', () => {
  // Shared, because a cluster takes two seconds to become ready.
  let cluster: TestRedis
  beforeAll(async () => {
    cluster = await startTestRedis(['cluster-enabled yes', 'cluster-announce-ip 127.0.0.1'])
    await cluster.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    await until(async () => String(await cluster.client.call('CLUSTER', 'INFO')).includes('cluster_state:ok'))
  })
  afterAll(() => cluster.stop())

  it('keeps all keys in one slot of a Redis Cluster and delivers', async () => {
    const queue = await open(`redis+cluster://127.0.0.1:${cluster.port}`)
    const delivered = collect(queue)
    const jobId = randomUUID()
    await queue.enqueue(jobId, 'text')
    await expect.poll(() => delivered).toEqual([jobId])
    const keys = await cluster.client.keys('*')
    const slots = new Set(await Promise.all(keys.map((key) => cluster.client.call('CLUSTER', 'KEYSLOT', key))))
    expect(slots.size).toBe(1)
  })

  it('rejects a Redis Cluster with a master that may evict keys', async () => {
    await cluster.client.config('SET', 'maxmemory', '50mb')
    await cluster.client.config('SET', 'maxmemory-policy', 'allkeys-lru')
    try {
      const message = await messageOf(open(`redis+cluster://127.0.0.1:${cluster.port}`))
      expect(message).toContain('set maxmemory-policy noeviction')
    } finally {
      await cluster.client.config('SET', 'maxmemory-policy', 'noeviction')
    }
  })

  it('delivers through the master that the sentinels name', async () => {
    const master = await start()
    const sentinel = await start(`sentinel monitor fare-master 127.0.0.1 ${master.port} 1`)
    const queue = await open(`redis+sentinel://127.0.0.1:${sentinel.port}/fare-master`)
    const delivered = collect(queue)
    const jobId = randomUUID()
    await queue.enqueue(jobId, 'text')
    await expect.poll(() => delivered).toEqual([jobId])
    expect(await master.client.keys('{farebox}:*')).not.toEqual([])
  })

  it('names the setting when no sentinel knows the master', async () => {
    const master = await start()
    const sentinel = await start(`sentinel monitor fare-master 127.0.0.1 ${master.port} 1`)
    const message = await messageOf(open(`redis+sentinel://127.0.0.1:${sentinel.port}/another`))
    expect(message).toContain(`QUEUE_URL: the queue at redis+sentinel://127.0.0.1:${sentinel.port}/another`)
  })
})
