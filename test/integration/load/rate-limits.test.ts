import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { openSharedAllowances, type RedisAllowances } from '#shared/adapters/redis/shared-allowances.ts'
import { createRateLimiter, type SharedAllowances } from '../../../api/plugins/rate-limits.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
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

/** One API process's limits around a route, and what it logs. Its clock stands: nothing is refilled but by Redis. */
async function startProcess(shared: SharedAllowances | null, requestsPerMinute = LIMIT) {
  const logged: string[] = []
  const log = (message: string) => logged.push(message)
  const limitRate = createRateLimiter({
    requestsPerMinute,
    paidRequestsPerMinute: PAID_LIMIT,
    isPaying: ({ headers }) => headers['payment-signature'] !== undefined,
    shared,
    logger: { info: log, warn: log, error: log },
    now: () => 0,
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

/** The allowances as one process sees them, with what it took of them in Redis and what that said to be left then. */
interface Told extends SharedAllowances {
  readonly taken: number
  readonly left: number
  /** Times that it asked Redis and has an answer, or knows that there is none. */
  readonly exchanges: number
}

function noting(shared: SharedAllowances): Told {
  let [taken, left, exchanges] = [0, Number.NaN, 0]
  return {
    get taken() {
      return taken
    },
    get left() {
      return left
    },
    get exchanges() {
      return exchanges
    },
    take: async (client, tokens, perMinute) => {
      try {
        left = await shared.take(client, tokens, perMinute)
        taken += tokens
        return left
      } finally {
        exchanges += 1
      }
    },
  }
}

/** What Redis may have refilled since then, by its own clock. */
const refilledSince = (startedAt: number, perMinute: number) => ((Date.now() - startedAt) / 60_000) * perMinute

function open(url: string): RedisAllowances {
  const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_URL: url, QUEUE_PREFIX: `{${randomUUID()}}` }
  const shared = openSharedAllowances(settings)
  if (!shared) throw new Error('a queue in Redis shares allowances')
  allowances.push(shared)
  return shared
}

/** The client connects in the background. */
async function untilReachable(shared: SharedAllowances): Promise<void> {
  await expect.poll(() => shared.take('probe', 1, 10).catch(() => null)).not.toBeNull()
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
    const [firstTold, secondTold] = [noting(shared), noting(shared)]
    const [first, second] = [await startProcess(firstTold), await startProcess(secondTold)]
    await untilReachable(shared)
    const startedAt = Date.now()
    expect(new Set(await statuses(first, 15))).toEqual(new Set([200]))
    await expect.poll(() => firstTold.taken).toBe(15)
    await second.ask()
    await expect.poll(() => secondTold.taken).toBe(1)
    // 15 there and the asking here, less what is refilled meanwhile: a token in three seconds.
    expect(secondTold.left).toBeLessThanOrEqual(LIMIT - 16 + refilledSince(startedAt, LIMIT))
    expect(await remaining(second)).toBe(Math.floor(secondTold.left) - 1)
    await expect.poll(async () => (await second.ask()).statusCode).toBe(429)
    await expect.poll(async () => (await first.ask()).statusCode).toBe(429)
  })

  it('nobody is refused because Redis is away; it is told once, and limits are shared again afterwards', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const [firstTold, secondTold] = [noting(shared), noting(shared)]
    const [first, second] = [await startProcess(firstTold, 1000), await startProcess(secondTold, 1000)]
    await untilReachable(shared)
    await server.kill()
    expect(new Set(await statuses(first, 50))).toEqual(new Set([200]))
    await expect.poll(() => first.logged.filter((line) => line.includes('cannot be shared'))).toHaveLength(1)
    await server.restart()
    const [startedAt, takenBefore] = [Date.now(), firstTold.taken]
    await untilReachable(shared)
    await expect
      .poll(async () => {
        await first.ask()
        return first.logged.filter((line) => line.includes('again'))
      })
      .toHaveLength(1)
    await statuses(first, 100)
    await expect.poll(() => firstTold.taken - takenBefore).toBeGreaterThan(100)
    await second.ask()
    await expect.poll(() => secondTold.taken).toBe(1)
    const taken = firstTold.taken - takenBefore + 1
    expect(secondTold.left).toBeLessThanOrEqual(1000 - taken + refilledSince(startedAt, 1000))
    expect(await remaining(second)).toBe(Math.floor(secondTold.left) - 1)
    expect(first.logged.filter((line) => line.includes('again'))).toHaveLength(1)
  })

  it('a hanging Redis keeps nobody waiting', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const told = noting(shared)
    const alone = await startProcess(told)
    await untilReachable(shared)
    server.pause()
    expect(new Set(await statuses(alone, LIMIT))).toEqual(new Set([200]))
    // Each of them would have waited for an exchange with Redis, which takes two seconds to fail.
    expect(told.exchanges).toBeLessThan(LIMIT)
  })
})
