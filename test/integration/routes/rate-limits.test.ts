import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { openSharedAllowances, type RedisAllowances } from '#shared/adapters/redis/shared-allowances.ts'
import { createAllowances, type SharedAllowances } from '../../../api/plugins/allowances.ts'
import { createRateLimiter } from '../../../api/plugins/rate-limits.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { composeApp } from './compose-app.ts'

const LIMIT = 20
/** The limit of requests with a payment. */
const PAID_LIMIT = 200

const servers: TestRedis[] = []
const allowances: RedisAllowances[] = []
const apps: FastifyInstance[] = []
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close()
  for (const shared of allowances.splice(0)) shared.close()
  for (const server of servers.splice(0)) await server.stop()
})

/**
 * Starts a route behind the limits of one API process, with its log. Its clock is stopped, so only Redis refills
 * tokens.
 */
async function startProcess(shared: SharedAllowances | null, requestsPerMinute = LIMIT) {
  const logged: string[] = []
  const log = (message: string) => logged.push(message)
  const limitRate = createRateLimiter({
    allowances: createAllowances({ shared, logger: { info: log, warn: log, error: log }, now: () => 0 }),
    requestsPerMinute,
    paidRequestsPerMinute: PAID_LIMIT,
    isKnownPayer: ({ headers }) => headers['payment-signature'] !== undefined,
  })
  const app = await composeApp((composed) => {
    composed.get('/limited', async (request, reply) => {
      limitRate(request, reply, 'openai')
      return 'fine'
    })
  })
  apps.push(app)
  return {
    logged,
    ask: (headers: Record<string, string> = {}, remoteAddress = '203.0.113.1') =>
      app.inject({ url: '/limited', headers, remoteAddress }),
  }
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

/** Asks once from each address. */
async function answered({ ask }: Process, addresses: readonly string[]): Promise<number> {
  let count = 0
  for (const address of addresses) count += (await ask({}, address)).statusCode === 200 ? 1 : 0
  return count
}

async function startRedis(): Promise<TestRedis> {
  const server = await startTestRedis()
  servers.push(server)
  return server
}

/** Shared allowances as one process uses them. */
interface RecordedAllowances extends SharedAllowances {
  /** Tokens that it took in Redis. */
  readonly taken: number
  /** Tokens left according to Redis, after the last take. */
  readonly left: number
  /** Takes that Redis answered, or that failed. */
  readonly exchanges: number
}

function recording(shared: SharedAllowances): RecordedAllowances {
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

/** Returns how many tokens Redis may have refilled since then, by its own clock. */
const refilledSince = (startedAt: number, perMinute: number) => ((Date.now() - startedAt) / 60_000) * perMinute

function open(url: string): RedisAllowances {
  const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_URL: url, QUEUE_PREFIX: `{${randomUUID()}}` }
  const shared = openSharedAllowances(settings)
  if (!shared) throw new Error('a queue in Redis shares allowances')
  allowances.push(shared)
  return shared
}

/** Waits until Redis answers; the client connects in the background. */
async function untilReachable(shared: SharedAllowances): Promise<void> {
  await expect.poll(() => shared.take('probe', 1, 10).catch(() => null)).not.toBeNull()
}

describe('rate limits in one process', () => {
  it('requests with a payment have a separate, larger allowance', async () => {
    const alone = await startProcess(null)
    expect(await statuses(alone, LIMIT + 1)).toEqual([...Array.from({ length: LIMIT }, () => 200), 429])
    const payment = { 'payment-signature': 'x' }
    expect(await remaining(alone, payment)).toBe(PAID_LIMIT - 1)
    expect(new Set(await statuses(alone, 100, payment))).toEqual(new Set([200]))
    expect((await alone.ask()).statusCode).toBe(429)
  })
  it('all addresses of an IPv6 /64 share one allowance', async () => {
    const alone = await startProcess(null)
    const addresses = Array.from({ length: LIMIT * 2 }, (_, host) => `2001:db8:1:1::${(host + 1).toString(16)}`)
    expect(await answered(alone, addresses)).toBe(LIMIT)
    expect((await alone.ask({}, '2001:db8:1:2::1')).statusCode).toBe(200)
  })

  it('all /64 networks of an IPv6 /48 share ten times the allowance', async () => {
    const alone = await startProcess(null)
    const addresses = Array.from({ length: LIMIT * 11 }, (_, network) => `2001:db8:2:${network.toString(16)}::1`)
    expect(await answered(alone, addresses)).toBe(LIMIT * 10)
    expect((await alone.ask({}, '2001:db8:3::1')).statusCode).toBe(200)
  })

  it('a network beyond its own allowance takes nothing from the others of its /48', async () => {
    const alone = await startProcess(null)
    const noisy = Array.from({ length: LIMIT * 20 }, () => '2001:db8:4:1::1')
    expect(await answered(alone, noisy)).toBe(LIMIT)
    expect(
      await answered(
        alone,
        Array.from({ length: LIMIT }, () => '2001:db8:4:2::1'),
      ),
    ).toBe(LIMIT)
  })

  it('an IPv4 address and its IPv6-mapped form are one client, and its neighbors are others', async () => {
    const alone = await startProcess(null)
    const forms = ['198.51.100.7', '::ffff:198.51.100.7', '::ffff:c633:6407']
    expect(await answered(alone, Array.from({ length: LIMIT }, () => forms).flat())).toBe(LIMIT)
    expect((await alone.ask({}, '::ffff:198.51.100.8')).statusCode).toBe(200)
  })

  it('a queue in PostgreSQL shares no allowances between processes', () => {
    const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_PREFIX: '{farebox}' }
    expect(openSharedAllowances(settings)).toBeNull()
    expect(openSharedAllowances({ ...settings, QUEUE_URL: 'postgres://not-used' })).toBeNull()
  })
})

describe.skipIf(!haveRedis())('rate limits over Redis', () => {
  it('API processes share one allowance in Redis', async () => {
    const shared = open((await startRedis()).url)
    const [firstShare, secondShare] = [recording(shared), recording(shared)]
    const [first, second] = [await startProcess(firstShare), await startProcess(secondShare)]
    await untilReachable(shared)
    const startedAt = Date.now()
    expect(new Set(await statuses(first, 15))).toEqual(new Set([200]))
    await expect.poll(() => firstShare.taken).toBe(15)
    await second.ask()
    await expect.poll(() => secondShare.taken).toBe(1)
    // 15 requests there and one here, plus what was refilled meanwhile: a token every three seconds.
    expect(secondShare.left).toBeLessThanOrEqual(LIMIT - 16 + refilledSince(startedAt, LIMIT))
    expect(await remaining(second)).toBe(Math.floor(secondShare.left) - 1)
    await expect.poll(async () => (await second.ask()).statusCode).toBe(429)
    await expect.poll(async () => (await first.ask()).statusCode).toBe(429)
  })

  it('API processes share the allowance of an IPv6 /64 and of its /48', async () => {
    const shared = open((await startRedis()).url)
    const [first, second] = [await startProcess(shared), await startProcess(shared)]
    await untilReachable(shared)
    await answered(
      first,
      Array.from({ length: LIMIT }, (_, host) => `2001:db8:5:1::${(host + 1).toString(16)}`),
    )
    await expect.poll(async () => (await second.ask({}, '2001:db8:5:1::ffff')).statusCode).toBe(429)
    expect((await second.ask({}, '2001:db8:5:2::1')).statusCode).toBe(200)
  })

  it('no request is rejected while Redis is down; limits are shared again afterwards, each logged once', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const [firstShare, secondShare] = [recording(shared), recording(shared)]
    const [first, second] = [await startProcess(firstShare, 1000), await startProcess(secondShare, 1000)]
    await untilReachable(shared)
    await server.kill()
    expect(new Set(await statuses(first, 50))).toEqual(new Set([200]))
    await expect.poll(() => first.logged.filter((line) => line.includes('failed to share rate limits'))).toHaveLength(1)
    await server.restart()
    const [startedAt, takenBefore] = [Date.now(), firstShare.taken]
    await untilReachable(shared)
    await expect
      .poll(async () => {
        await first.ask()
        return first.logged.filter((line) => line.includes('again'))
      })
      .toHaveLength(1)
    await statuses(first, 100)
    await expect.poll(() => firstShare.taken - takenBefore).toBeGreaterThan(100)
    await second.ask()
    await expect.poll(() => secondShare.taken).toBe(1)
    const taken = firstShare.taken - takenBefore + 1
    expect(secondShare.left).toBeLessThanOrEqual(1000 - taken + refilledSince(startedAt, 1000))
    expect(await remaining(second)).toBe(Math.floor(secondShare.left) - 1)
    expect(first.logged.filter((line) => line.includes('again'))).toHaveLength(1)
  })

  it('a hanging Redis delays no request', async () => {
    const server = await startRedis()
    const shared = open(server.url)
    const recorded = recording(shared)
    const alone = await startProcess(recorded)
    await untilReachable(shared)
    server.pause()
    expect(new Set(await statuses(alone, LIMIT))).toEqual(new Set([200]))
    // A request that waited for Redis would wait for an exchange, which takes two seconds to fail.
    expect(recorded.exchanges).toBeLessThan(LIMIT)
  })
})
