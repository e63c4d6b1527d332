import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type OpenedJobQueue, openJobQueue } from '#shared/adapters/bullmq/job-queue.ts'
import { createQueueBoard } from '#shared/adapters/bullmq/queue-board.ts'
import { addOperatorBoard, OPERATOR_BOARD_PATH } from '../../../api/routes/operator-board.ts'
import { createTestDatabase, type TestDatabase } from '../../support/ledger/test-database.ts'
import { haveRedis, startTestRedis, type TestRedis } from '../../support/processes/redis-server.ts'
import { composeApp, newAllowances } from '../routes/compose-app.ts'

const TOKEN = 'an-operator-token-of-more-than-32-characters'
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
})

let database: TestDatabase
let redis: TestRedis | null
beforeAll(async () => {
  database = await createTestDatabase()
  redis = haveRedis() ? await startTestRedis() : null
})
afterAll(async () => {
  await redis?.stop()
  await database.drop()
})

const opened: { app: FastifyInstance; queue: OpenedJobQueue }[] = []
afterEach(async () => {
  for (const { app, queue } of opened.splice(0)) {
    await app.close()
    await queue.close()
  }
})

async function open(queueUrl: string): Promise<{ app: FastifyInstance; queue: OpenedJobQueue }> {
  const settings = { DATABASE_URL: database.url, QUEUE_URL: queueUrl, QUEUE_PREFIX: '{farebox-board}' }
  const queue = await openJobQueue(settings, () => undefined)
  const pages = createQueueBoard(queue, OPERATOR_BOARD_PATH)
  const app = await composeApp((app) => addOperatorBoard(app, { token: TOKEN, pages }, newAllowances()))
  opened.push({ app, queue })
  return { app, queue }
}

const urls = { postgres: () => database.url, redis: () => redis?.url ?? '' } as const

describe.each(['postgres', 'redis'] as const)('the board of queues in %s', (kind) => {
  it.skipIf(kind === 'redis' && !haveRedis())('shows waiting jobs to a client with the token', async () => {
    const { app, queue } = await open(urls[kind]())
    const jobId = randomUUID()
    await queue.enqueue(jobId, 'speech')
    for (const headers of [bearer(TOKEN), basic('anyone', TOKEN)]) {
      const page = await app.inject({ url: `${OPERATOR_BOARD_PATH}/`, headers })
      expect(page.statusCode).toBe(200)
      expect(page.body).toContain('farebox queues')
      const script = /src="([^"]+\.js)"/.exec(page.body)?.[1] ?? ''
      const path = new URL(script, `http://x${OPERATOR_BOARD_PATH}/`).pathname
      expect((await app.inject({ url: path, headers })).statusCode).toBe(200)
    }
    const url = `${OPERATOR_BOARD_PATH}/api/queues?activeQueue=speech&status=waiting&page=1&jobsPerPage=10`
    const answer = await app.inject({ url, headers: bearer(TOKEN) })
    expect(answer.statusCode).toBe(200)
    const { queues } = answer.json<{ queues: { name: string; readOnlyMode: boolean; jobs: { data: unknown }[] }[] }>()
    expect(queues.map(({ name }) => name).toSorted()).toEqual([
      'images',
      'settlement',
      'speech',
      'text',
      'transcriptions',
    ])
    expect(queues.every(({ readOnlyMode }) => readOnlyMode)).toBe(true)
    const [waiting] = queues.find(({ name }) => name === 'speech')?.jobs ?? []
    expect(JSON.stringify(waiting?.data)).toContain(jobId)
  })

  it.skipIf(kind === 'redis' && !haveRedis())('rejects every change', async () => {
    const { app, queue } = await open(urls[kind]())
    await queue.enqueue(randomUUID(), 'text')
    for (const [method, path] of [
      ['PUT', '/api/queues/text/pause'],
      ['PUT', '/api/queues/text/empty'],
      ['POST', '/api/queues/text/add'],
      ['PUT', '/api/queues/pause'],
      ['PUT', '/api/queues/text/obliterate'],
    ] as const) {
      const answer = await app.inject({ method, url: `${OPERATOR_BOARD_PATH}${path}`, headers: bearer(TOKEN) })
      expect({ method, path, status: answer.statusCode }).toEqual({ method, path, status: 405 })
    }
    const url = `${OPERATOR_BOARD_PATH}/api/queues?activeQueue=text&page=1&jobsPerPage=10`
    const { queues } = (await app.inject({ url, headers: bearer(TOKEN) })).json<{
      queues: { name: string; isPaused: boolean; counts: { waiting: number } }[]
    }>()
    expect(queues.find(({ name }) => name === 'text')).toMatchObject({ isPaused: false, counts: { waiting: 1 } })
  })
})

describe('operator authentication', () => {
  it.each<readonly [string, Record<string, string>]>([
    ['a missing token', {}],
    ['another token', bearer(`${TOKEN}x`)],
    ['the beginning of the token', bearer(TOKEN.slice(0, -1))],
    ['an empty token', { authorization: 'Bearer ' }],
    ['an empty password', basic(TOKEN, '')],
    ['a wrong password', basic('operator', 'guess')],
    ['no password at all', { authorization: `Basic ${Buffer.from(TOKEN).toString('base64')}` }],
    ['another scheme', { authorization: `Digest ${TOKEN}` }],
  ])('rejects %s on every path of the board', async (_, headers) => {
    const { app } = await open(database.url)
    for (const path of ['', '/', '/api/queues', '/static/js/app.js', '/queue/text']) {
      const answer = await app.inject({ url: `${OPERATOR_BOARD_PATH}${path}`, headers })
      expect({ path, status: answer.statusCode }).toEqual({ path, status: 401 })
      expect(answer.headers['www-authenticate']).toMatch(/^Basic realm=/)
      expect(answer.body).toBe('{"error":"operator_token_required"}')
    }
  })

  it('limits wrong tokens per network, and refuses the correct one from there until the limit has recovered', async () => {
    const { app } = await open(database.url)
    const ask = async (headers: Record<string, string>, remoteAddress: string) =>
      (await app.inject({ url: `${OPERATOR_BOARD_PATH}/static/x.js`, headers, remoteAddress })).statusCode
    const guesses = []
    for (let guess = 0; guess < 30; guess += 1)
      guesses.push(await ask(bearer(`guess ${guess}`.padEnd(40, 'x').replace(' ', '')), `2001:db8::${guess + 1}`))
    expect(guesses).toEqual(Array.from({ length: 30 }, (_, guess) => (guess < 10 ? 401 : 429)))
    expect(await ask(bearer(TOKEN), '2001:db8::ffff')).toBe(429)
    expect(await ask(bearer(TOKEN), '2001:db8:0:1::1')).toBe(404)
  })

  it('never limits the correct token or requests without one', async () => {
    const { app } = await open(database.url)
    for (let asked = 0; asked < 30; asked += 1) {
      const answers = [{}, bearer(TOKEN)].map((headers) => app.inject({ url: `${OPERATOR_BOARD_PATH}/`, headers }))
      expect((await Promise.all(answers)).map(({ statusCode }) => statusCode)).toEqual([401, 200])
    }
  })

  it('forbids framing, foreign scripts and content sniffing', async () => {
    const { app } = await open(database.url)
    for (const headers of [{}, bearer(TOKEN)]) {
      const answer = await app.inject({ url: `${OPERATOR_BOARD_PATH}/`, headers })
      expect(answer.headers['content-security-policy']).toMatch(/default-src 'self'.*frame-ancestors 'none'/)
      expect(answer.headers['x-frame-options']).toBe('DENY')
      expect(answer.headers['x-content-type-options']).toBe('nosniff')
    }
  })

  it('answers paths that name no file, or one outside the pages, with the common error body', async () => {
    const { app } = await open(database.url)
    for (const path of ['..%2f..%2fpackage.json', '..%5c..%5cx', '.env', '%00', 'a%00.js', '', 'nothing.js', 'js/']) {
      const answer = await app.inject({ url: `${OPERATOR_BOARD_PATH}/static/${path}`, headers: bearer(TOKEN) })
      expect({ path, type: answer.headers['content-type'], body: answer.json() }).toMatchObject({
        path,
        type: 'application/json; charset=utf-8',
        body: { type: 'error', error: { code: expect.stringMatching(/^(not_found|malformed_http)$/) } },
      })
      expect([400, 404]).toContain(answer.statusCode)
    }
  })

  it('serves no board when no token is configured', async () => {
    const app = await composeApp((app) => addOperatorBoard(app, null, newAllowances()))
    expect((await app.inject({ url: `${OPERATOR_BOARD_PATH}/`, headers: bearer(TOKEN) })).statusCode).toBe(404)
    await app.close()
  })
})
