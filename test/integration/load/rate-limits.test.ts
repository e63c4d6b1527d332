import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { openSharedAllowances, type RedisAllowances } from '#shared/adapters/redis/shared-allowances.ts'
import { createRateLimiter, type SharedAllowances } from '../../../api/plugins/rate-limits.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/redis-server.ts'
import { composeApp } from '../routes/compose-app.ts'

const LIMIT = 20
/** The limit of requests that bring a payment. */
const PAID_LIMIT = 200

const servers: TestRedis[] = []
const allowances: RedisAllowances[] = []
const apps: FastifyInstance[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
  for (const shared of allowances.splice(0)) shared.close()
  for (const server of servers.splice(0)) await server.stop()
})

/** One API process's limits around a route, and what it logs. */
async function startProcess(shared: SharedAllowances | null, requestsPerMinute = LIMIT) {
  const logged: string[] = []
  const log = (message: string) => logged.push(message)
  const limitRate = createRateLimiter({
    requestsPerMinute,
    paidRequestsPerMinute: PAID_LIMIT,
    isPaying: ({ headers }) => headers['payment-signature'] !== undefined,
    shared,
    logger: { info: log, warn: log, error: log },
  })
  const app = await composeApp((composed) => {
    composed.get('/limited', async (request, reply) => {
      limitRate(request, reply, 'openai')
      return 'fine'
    })
  })
  apps.push(app)
  return { logged, ask: (headers: Record<string, string> = {}) => app.inject({ url: '/limited', headers }) }
}

type Process = Awaited<ReturnType<typeof startProcess>>

async function remaining({ ask }: Process, headers: Record<string, string> = {}): Promise<number> {
  return Number((await ask(headers)).headers['x-ratelimit-remaining-requests'])
}

async function statuses({ ask }: Process, count: number, headers: Record<string, string> = {}): Promise<number[]> {
  const answers = []
  for (let sent = 0; sent < count; sent += 1) answers.push((await ask(headers)).statusCode)
  return answers
}

async function startRedis(): Promise<TestRedis> {
  const server = await startTestRedis()
  servers.push(server)
  return server
}

function open(url: string): RedisAllowances {
  const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_URL: url, QUEUE_PREFIX: `{${randomUUID()}}` }
  const shared = openSharedAllowances(settings)
  if (!shared) throw new Error('a queue in Redis shares allowances')
  allowances.push(shared)
  return shared
}

describe('in one process', () => {
  it('requests that bring a payment have a larger allowance of their own', async () => {
    const alone = await startProcess(null)
    expect(await statuses(alone, LIMIT + 1)).toEqual([...Array.from({ length: LIMIT }, () => 200), 429])
    const payment = { 'payment-signature': 'x' }
    expect(await remaining(alone, payment)).toBe(PAID_LIMIT - 1)
    expect(new Set(await statuses(alone, 100, payment))).toEqual(new Set([200]))
    expect((await alone.ask()).statusCode).toBe(429)
  })
  it('a queue in PostgreSQL shares nothing', () => {
    const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_PREFIX: '{farebox}' }
    expect(openSharedAllowances(settings)).toBeNull()
    expect(openSharedAllowances({ ...settings, QUEUE_URL: 'postgres://not-used' })).toBeNull()
  })
})

describe.skipIf(!haveRedis())('over Redis', () => {
  it('processes draw on one allowance', async () => {
    const shared = open((await startRedis()).url)
    const [first, second] = [await startProcess(shared), await startProcess(shared)]
    expect(new Set(await statuses(first, 15))).toEqual(new Set([200]))
    // 15 there and the asking here, less what is refilled meanwhile: a token in three seconds.
    await expect.poll(() => remaining(second), { interval: 200, timeout: 20_000 }).toBeLessThan(5)
    await expect.poll(async () => (await second.ask()).statusCode, { interval: 20, timeout: 20_000 }).toBe(429)
    await expect.poll(async () => (await first.ask()).statusCode, { interval: 20, timeout: 20_000 }).toBe(429)
  })

  it('nobody is refused because Redis is away; it is told once, and limits are shared again afterwards', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const [first, second] = [await startProcess(shared, 1000), await startProcess(shared, 1000)]
    await expect.poll(() => shared.take('probe', 1, 10).catch(() => null), { timeout: 20_000 }).not.toBeNull()
    await server.kill()
    expect(new Set(await statuses(first, 50))).toEqual(new Set([200]))
    await expect.poll(() => first.logged.filter((line) => line.includes('cannot be shared'))).toHaveLength(1)
    await server.restart()
    await expect
      .poll(
        async () => {
          await statuses(first, 20)
          return await remaining(second)
        },
        { interval: 300, timeout: 30_000 },
      )
      .toBeLessThan(900)
    expect(first.logged.filter((line) => line.includes('again'))).toHaveLength(1)
  })

  it('a hanging Redis keeps nobody waiting', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const alone = await startProcess(shared)
    await expect.poll(() => shared.take('probe', 1, 10).catch(() => null), { timeout: 20_000 }).not.toBeNull()
    server.pause()
    const startedAt = performance.now()
    expect(new Set(await statuses(alone, LIMIT))).toEqual(new Set([200]))
    expect(performance.now() - startedAt).toBeLessThan(1500)
  })
})
