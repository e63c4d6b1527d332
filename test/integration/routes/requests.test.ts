import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setImmediate as nextTurn } from 'node:timers/promises'
import multipart from '@fastify/multipart'
import type { FastifyInstance } from 'fastify'
import fastify from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openSharedRateBuckets, type RedisRateBuckets } from '#shared/adapters/redis/shared-rate-buckets.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { createRateBuckets, type SharedRateBuckets } from '../../../api/limits/rate-buckets.ts'
import { createRateLimiter } from '../../../api/limits/rate-limits.ts'
import { addErrorHandling } from '../../../api/plugins/errors.ts'
import { newRequestId } from '../../../api/plugins/request-context.ts'
import { UNLIMITED_ARRIVAL } from '../../../api/request/body-bytes.ts'
import { readMultipart } from '../../../api/request/multipart.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { composeApp, composeLists } from './compose-app.ts'

const ORIGIN = 'https://page.example'
const BODY_LIMIT = 100_000
const { upload } = transcriptions
if (!upload) throw new Error('transcriptions take an upload')
const LIMIT = 20
/** The limit of requests with a payment. */
const PAID_LIMIT = 200
const servers: TestRedis[] = []
const allowances: RedisRateBuckets[] = []
async function startRedis(): Promise<TestRedis> {
  const server = await startTestRedis()
  servers.push(server)
  return server
}
/** Shared allowances as one process uses them. */
interface RecordedRateBuckets extends SharedRateBuckets {
  /** Tokens that it took in Redis. */
  readonly taken: number
  /** Tokens left according to Redis, after the last take. */
  readonly left: number
  /** Takes that Redis answered, or that failed. */
  readonly exchanges: number
}
function recording(shared: SharedRateBuckets): RecordedRateBuckets {
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
function open(url: string): RedisRateBuckets {
  const settings = { DATABASE_URL: 'postgres://not-used', QUEUE_URL: url, QUEUE_PREFIX: `{${randomUUID()}}` }
  const shared = openSharedRateBuckets(settings)
  if (!shared) throw new Error('a queue in Redis shares allowances')
  allowances.push(shared)
  return shared
}
/** Waits until Redis answers; the client connects in the background. */
async function untilReachable(shared: SharedRateBuckets): Promise<void> {
  await expect.poll(() => shared.take('probe', 1, 10).catch(() => null)).not.toBeNull()
}

describe('requests from other origins', async () => {
  const app = await composeLists()
  function preflight(url: string) {
    const headers = {
      origin: ORIGIN,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type',
    }
    return app.inject({ method: 'OPTIONS', url, headers })
  }
  describe('a browser of any origin', () => {
    it('a browser of any origin may read every response, errors included', async () => {
      for (const url of ['/v1/models', '/v1/nowhere']) {
        const { headers } = await app.inject({ url, headers: { origin: ORIGIN } })
        expect(headers['access-control-allow-origin']).toBe('*')
        expect(headers['access-control-allow-credentials']).toBeUndefined()
      }
    })

    it.each([
      'payment-required',
      'payment-response',
      'x-receipt-id',
      'x-receipt-token',
      'www-authenticate',
      'x-request-id',
      'request-id',
      'x-catalog-version',
      'retry-after',
      'retry-after-ms',
      'x-should-retry',
      'etag',
      'x-media-url',
      'x-ratelimit-remaining-requests',
      'anthropic-ratelimit-requests-remaining',
    ])('a browser of any origin may read the header %s', async (name) => {
      const { headers } = await app.inject({ url: '/v1/models', headers: { origin: ORIGIN } })
      const exposed = String(headers['access-control-expose-headers']).toLowerCase().split(', ')
      expect(exposed).toContain(name)
    })

    it('a browser may read every header of an answer that a cache kept from a request without an origin', async () => {
      const { headers } = await app.inject({ url: '/v1/models' })
      expect(headers).toMatchObject({ 'access-control-allow-origin': '*', 'access-control-expose-headers': '*' })
      expect(headers['vary']).toBeUndefined()
    })

    it('answers OPTIONS that are no preflight like a method that the route does not have', async () => {
      expect((await app.inject({ method: 'OPTIONS', url: '/v1/models' })).statusCode).toBe(405)
      expect((await app.inject({ method: 'OPTIONS', url: '/v1/nowhere' })).statusCode).toBe(404)
    })

    it.each([
      'x-idempotency-key',
      'payment-signature',
      'content-type',
      'authorization',
      'x-api-key',
      'anthropic-version',
      'x-stainless-lang',
      'access-control-expose-headers',
      'if-none-match',
    ])('a browser of any origin may send the header %s', async (name) => {
      const answer = await preflight('/v1/models')
      expect(String(answer.headers['access-control-allow-headers']).toLowerCase().split(', ')).toContain(name)
    })

    // `ai` and `@anthropic-ai/sdk` set a user agent, which Firefox and Safari ask for; the latter's tool runner names itself.
    it.each(['user-agent', 'x-stainless-helper', 'x-of-a-later-sdk'])(
      'a browser of any origin may send the header %s, which the list does not name',
      async (name) => {
        const answer = await preflight('/v1/messages')
        const allowed = String(answer.headers['access-control-allow-headers']).toLowerCase().split(', ')
        // The rule of the Fetch standard, 4.8 (CORS-preflight fetch), for requests without credentials.
        expect(allowed.includes(name) || allowed.includes('*')).toBe(true)
      },
    )

    it.each(['/v1/models', '/v1/chat/completions', '/v1/nowhere'])('a preflight of %s is a 204', async (url) => {
      const answer = await preflight(url)
      expect({ status: answer.statusCode, body: answer.body }).toEqual({ status: 204, body: '' })
      expect(answer.headers['access-control-allow-methods']).toBe('GET, HEAD, POST')
      expect(answer.headers['access-control-max-age']).toBe('86400')
      expect(answer.headers['x-request-id']).toBeDefined()
    })
  })

  describe('other methods', () => {
    it('OPTIONS on a known route without a preflight is a 405 with Allow', async () => {
      const answer = await app.inject({ method: 'OPTIONS', url: '/v1/models' })
      expect(answer.statusCode).toBe(405)
      expect(String(answer.headers.allow).split(', ')).toEqual(expect.arrayContaining(['GET', 'HEAD']))
    })

    it('OPTIONS on an unknown route is a 404', async () => {
      const answer = await app.inject({ method: 'OPTIONS', url: '/v1/nowhere' })
      expect(answer.statusCode).toBe(404)
      expect(answer.json()).toMatchObject({ type: 'error', error: { code: 'not_found' } })
    })

    it.each(['POST', 'PUT', 'DELETE', 'PATCH'] as const)('%s on a list is a 405 with Allow', async (method) => {
      const answer = await app.inject({ method, url: '/v1/models' })
      expect(answer.statusCode).toBe(405)
      expect(String(answer.headers.allow).split(', ').toSorted()).toEqual(['GET', 'HEAD'])
      expect(answer.json()).toMatchObject({ error: { code: 'method_not_allowed', param: null, retry: 'never' } })
    })

    it.each([
      ['/pricing', '/v1/pricing? The base URL'],
      ['/v1/v1/pricing', '/v1/pricing? The base URL'],
      ['/v1//pricing', '/v1/pricing?'],
      ['//v1/pricing/', '/v1/pricing?'],
      ['/pricing/?x=//', '/v1/pricing? The base URL'],
    ])('a path that a wrong base URL makes, %s, is a 404 that names the route', async (url, route) => {
      const answer = await app.inject({ method: 'POST', url, payload: {} })
      expect(answer.statusCode).toBe(404)
      expect(answer.json().error.message).toContain(`There is no such route. Did you mean ${route}`)
    })

    it.each([
      '/',
      '//',
      '/v1/',
      '/v1/v1/',
      '/v1/nowhere/',
      '/v1/v1/nowhere',
      '/v1/v1/v1/pricing',
      '/openai/v1/pricing',
    ])('POST %s names no route', async (url) => {
      const answer = await app.inject({ method: 'POST', url, payload: {} })
      expect(answer.json().error.message).not.toContain('Did you mean')
    })

    it('GET on an unknown route is a 404 with the request id in both headers', async () => {
      const answer = await app.inject('/v1/nowhere')
      expect(answer.statusCode).toBe(404)
      const { request_id: requestId, error } = answer.json()
      expect(error).toMatchObject({ code: 'not_found', type: 'not_found_error' })
      expect([answer.headers['x-request-id'], answer.headers['request-id']]).toEqual([requestId, requestId])
    })
  })
})

describe('errors of the API', () => {
  const apps: ReturnType<typeof fastify>[] = []
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close()
  })

  /** Answers one request to `route` with `thrown` and returns the response with what was logged. */
  async function answerTo(thrown: unknown, { route, url } = { route: '/', url: '/' }) {
    const logged: { level: string; message: string; fields: object }[] = []
    const log = (level: string) => (message: string, fields: object) => void logged.push({ level, message, fields })
    const app = fastify({ genReqId: newRequestId })
    apps.push(app)
    app.decorateRequest('outcome')
    addErrorHandling(app, () => false, { info: log('info'), warn: log('warn'), error: log('error') })
    app.get(route, () => {
      throw thrown
    })
    return { answer: await app.inject(url), logged }
  }
  it.each([
    ['/v1/messages', '/v1/messages', 'overloaded_error'],
    ['/v1/messages', '/v1/message%73?beta=true', 'overloaded_error'],
    ['/v1/chat/completions', '/v1/chat/completion%73', 'server_error'],
  ])('has the type of the family of %s, however the path is spelled: %s', async (route, url, type) => {
    const { answer } = await answerTo(new AppError('storage_unavailable'), { route, url })
    expect(answer.json()).toMatchObject({ error: { type, code: 'storage_unavailable' } })
  })
  describe('what is logged about a failure', () => {
    it.each(['overloaded', 'capacity_exceeded', 'settlement_pending'] satisfies ErrorCode[])(
      'logs %s below the level of errors and without a stack, since callers can cause it at will',
      async (code) => {
        const { answer, logged } = await answerTo(new AppError(code, { cause: new Error('why') }))
        expect(answer.statusCode).toBe(503)
        expect(logged).toEqual([
          { level: 'info', message: 'request shed', fields: { requestId: expect.any(String), code } },
        ])
      },
    )

    it('logs a failure of the service as an error with its cause', async () => {
      const cause = new Error('why')
      const { answer, logged } = await answerTo(new AppError('storage_unavailable', { cause }))
      expect(answer.statusCode).toBe(503)
      expect(logged).toMatchObject([{ level: 'error', fields: { code: 'storage_unavailable', error: cause } }])
    })

    it('logs nothing about a refused request', async () => {
      expect((await answerTo(new AppError('rate_limited'))).logged).toEqual([])
    })
  })

  describe('the headers that SDKs read', () => {
    it('a permit in use is a conflict that SDKs retry, after a part of a second', async () => {
      const { answer } = await answerTo(new AppError('permit_already_used', { retryAfterSeconds: 0.5 }))
      expect([answer.statusCode, answer.headers]).toMatchObject([
        409,
        { 'x-should-retry': 'true', 'retry-after': '1', 'retry-after-ms': '500' },
      ])
    })

    it('any other conflict is one that SDKs do not retry', async () => {
      const { answer } = await answerTo(new AppError('idempotency_key_reused'))
      expect(answer.headers).toMatchObject({ 'x-should-retry': 'false' })
      expect(answer.headers).not.toHaveProperty('retry-after')
    })
  })

  describe('errors of plugins', () => {
    it.each([
      [403, 404, 'not_found'],
      [404, 404, 'not_found'],
      [400, 400, 'malformed_http'],
      [500, 503, 'internal_error'],
    ])('answers an error of status %i with %i and the common error body', async (statusCode, status, code) => {
      const { answer } = await answerTo(Object.assign(new Error('secret'), { statusCode }))
      expect({ status: answer.statusCode, body: answer.json() }).toMatchObject({
        status,
        body: { type: 'error', error: { code } },
      })
      expect(answer.body).not.toContain('secret')
    })
  })
})

describe('a form that is too large', () => {
  let app: FastifyInstance
  let port: number
  beforeAll(async () => {
    app = await composeApp(async (composed) => {
      await composed.register(multipart)
      composed.post('/form', { bodyLimit: BODY_LIMIT }, (request) => readMultipart(request, upload, UNLIMITED_ARRIVAL))
    })
    port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  })

  afterAll(() => app.close())

  /** Sends a form without a part until it is answered, then `chunks` more chunks, without reading the response. */
  async function sendWithoutReading(chunks: number): Promise<Socket> {
    let response: ServerResponse | undefined
    app.server.once('request', (_, serverResponse: ServerResponse) => {
      response = serverResponse
    })
    const socket = connect(port, '127.0.0.1')
    socket.pause()
    await once(socket, 'connect')
    const head = [
      'POST /form HTTP/1.1',
      'host: test',
      'content-type: multipart/form-data; boundary=b',
      'transfer-encoding: chunked',
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n`)
    const chunk = Buffer.concat([Buffer.from('2710\r\n'), Buffer.alloc(10_000, 'p'), Buffer.from('\r\n')])
    for (let sent = 0; sent < chunks; sent += response?.headersSent ? 1 : 0) {
      if (!socket.write(chunk)) await Promise.race([once(socket, 'drain'), once(socket, 'error')])
      await nextTurn()
    }
    return socket
  }
  it('a caller who keeps sending after their oversized form was rejected can still read the 413', async () => {
    const socket = await sendWithoutReading(50)
    socket.end('0\r\n\r\n')
    const answer = await text(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 413 /)
    expect(answer).toContain('"code":"body_too_large"')
  })
})

describe('rate limits', () => {
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
  async function startProcess(shared: SharedRateBuckets | null, requestsPerMinute = LIMIT) {
    const logged: string[] = []
    const log = (message: string) => logged.push(message)
    const limitRate = createRateLimiter({
      rateBuckets: createRateBuckets({ shared, logger: { info: log, warn: log, error: log }, now: () => 0 }),
      requestsPerMinute,
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
      expect(openSharedRateBuckets(settings)).toBeNull()
      expect(openSharedRateBuckets({ ...settings, QUEUE_URL: 'postgres://not-used' })).toBeNull()
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
      await expect
        .poll(() => first.logged.filter((line) => line.includes('failed to share rate limits')))
        .toHaveLength(1)
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
})
