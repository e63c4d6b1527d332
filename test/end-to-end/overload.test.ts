import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { payChat, payChatPatiently, type SignedChat, sendChat, signChat } from '../support/chat-call.ts'
import { createPayer, type TestPayer } from '../support/custom-payment.ts'
import { type ErrorBody, expectErrorBody } from '../support/expect-refusal.ts'
import { generateMp3 } from '../support/mp3-generator.ts'
import { startTestSandbox, type TestSandbox } from '../support/test-sandbox.ts'

const TRANSCRIPTIONS = '/v1/audio/transcriptions'
const MEGABYTE = 1024 * 1024
/** Unpaid requests may take three quarters of it. */
const BODY_MEGABYTES = 80
const HELD = 4
const QUEUE_AGE_SECONDS = 4

let sandbox: TestSandbox
let payer: TestPayer
let baseUrl: string
beforeAll(async () => {
  sandbox = await startTestSandbox({
    apiEnvironment: {
      MAXIMUM_BODY_MEGABYTES: String(BODY_MEGABYTES),
      MAXIMUM_HELD_CONNECTIONS: String(HELD),
      MAXIMUM_QUEUE_AGE_SECONDS: String(QUEUE_AGE_SECONDS),
      DECODERS: '1',
      DECODER_WAITING: '0',
    },
  })
  baseUrl = sandbox.info.baseUrl
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
})
afterAll(() => sandbox.stop())

const sockets: Socket[] = []

/** Announces a body of this size and sends nothing of it, or asks first whether it is wanted. */
async function announce(megabytes: number, headers: Record<string, string> = {}): Promise<{ read: () => string }> {
  const { hostname, port, host } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  sockets.push(socket)
  let received = ''
  socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  const lines = {
    host,
    'content-type': 'application/json',
    'content-length': String(megabytes * MEGABYTE),
    'x-idempotency-key': randomUUID(),
    ...headers,
  }
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}`)
  socket.write(`POST ${TRANSCRIPTIONS} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
  return { read: () => received }
}

/** Ends what `announce` began. */
async function hangUp(): Promise<void> {
  for (const socket of sockets.splice(0)) socket.destroy()
  await vi.waitUntil(async () => (await sendChat(baseUrl, randomUUID())).status === 402, { timeout: 20_000 })
}

const sign = () => signChat(baseUrl, payer)
const jobs = async ({ idempotencyKey }: SignedChat) =>
  (await sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1', [idempotencyKey])).length

function expectOverloaded(answer: Awaited<ReturnType<typeof sendChat>>): void {
  expect(answer).toMatchObject({ status: 503, code: 'overloaded', payment: 'none', retry: 'same_request' })
  expect(Number(answer.response?.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
}

async function expectFreeAnswers(): Promise<void> {
  const paths = [
    '/healthz',
    '/readyz',
    '/v1/models',
    '/v1/pricing',
    '/v1/audio/voices',
    '/openapi.json',
    '/.well-known/x402',
  ]
  for (const path of paths) {
    const answer = await fetch(`${baseUrl}${path}`)
    await answer.arrayBuffer()
    expect({ path, status: answer.status }).toEqual({ path, status: 200 })
  }
}

describe('request bodies', () => {
  it('beyond the limit are refused before they are sent, in the common form; health and discovery answer fast', async () => {
    const first = await announce(35, { expect: '100-continue' })
    await vi.waitUntil(() => first.read().startsWith('HTTP/1.1 100 Continue'), { timeout: 10_000 })
    const second = await announce(30, { expect: '100-continue' })
    await vi.waitUntil(() => second.read().includes('\r\n\r\n{'), { timeout: 10_000 })
    const [head = '', body = ''] = second.read().split('\r\n\r\n')
    expect(head).toMatch(/^HTTP\/1\.1 503 /)
    expect(head).toMatch(/\r\nretry-after: [1-9]/)
    expect(head).toMatch(/\r\nx-ratelimit-remaining-requests: \d/)
    expect(JSON.parse(body) as ErrorBody).toMatchObject({
      error: { type: 'server_error', code: 'overloaded', payment: 'none', retry: 'same_request' },
    })
    await expectFreeAnswers()
    // What is small still fits.
    expect((await sendChat(baseUrl, randomUUID())).status).toBe(402)
    await hangUp()
  })

  it('that are refused while they are sent leave their sender the answer, however much he has still to send', async () => {
    await announce(35)
    const body = Buffer.alloc(30 * MEGABYTE, 'x')
    const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
    const answer = await fetch(`${baseUrl}${TRANSCRIPTIONS}`, { method: 'POST', headers, body })
    await expectErrorBody(answer, { status: 503, code: 'overloaded', param: null })
    await hangUp()
  })

  it('of callers who bring a payment find room where unpaid ones do not', async () => {
    const idempotencyKey = randomUUID()
    const audio = generateMp3({ durationMs: 1_200_000 })
    const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
    const payment = await sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey, body }))
    await announce(38)
    // With these 24 MiB it is more than the 60 that unpaid requests share.
    expect((await sandbox.transcribe({ body })).status).toBe(503)
    expect((await sandbox.transcribe({ idempotencyKey, body, headers: payment })).status).toBe(200)
    await hangUp()
  })
})

describe('decoders', () => {
  it('that are busy refuse further uploads, and nothing else', async () => {
    const uploads = ['a', 'b', 'c', 'd', 'e', 'f'].map((seed) => {
      const audio = generateMp3({ durationMs: 600_000, bitrate: 32, seed })
      return { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
    })
    let areDecoded = false
    const inspected = Promise.all(uploads.map((body) => sandbox.transcribe({ body }))).finally(() => {
      areDecoded = true
    })
    const [answers, chat] = await Promise.all([
      inspected,
      sendChat(baseUrl, randomUUID()),
      expectFreeAnswers().then(() => expect(areDecoded).toBe(false)),
    ])
    const refused = answers.filter(({ status }) => status !== 402)
    expect(refused.length).toBeGreaterThanOrEqual(1)
    expect(refused.length).toBeLessThan(uploads.length)
    for (const answer of refused) await expectErrorBody(answer, { status: 503, code: 'overloaded', param: null })
    expect(chat.status).toBe(402)
  })
})

describe('held callers', () => {
  it('beyond the limit are refused before their payment is taken; whoever paid already is told how his job stands', async () => {
    const finished = await sign()
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const [late, ...early] = await Promise.all(Array.from({ length: HELD + 1 }, sign))
    if (!late) throw new Error('one payment is late')
    await sandbox.setFaults([{ fault: 'none', delayMs: 6000, times: HELD }])
    const held = early.map((chat) => payChat(baseUrl, chat))
    await vi.waitUntil(async () => (await Promise.all(early.map(jobs))).every((count) => count === 1), {
      timeout: 10_000,
    })

    expectOverloaded(await sendChat(baseUrl, randomUUID()))
    expectOverloaded(await sendChat(baseUrl, late.idempotencyKey, late.headers))
    expect(await jobs(late)).toBe(0)
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const startedAt = performance.now()
    const [own] = early
    if (!own) throw new Error('somebody is held')
    expect(await payChat(baseUrl, own)).toMatchObject({
      status: 503,
      code: 'request_in_progress',
      payment: 'authorized',
    })
    expect(performance.now() - startedAt).toBeLessThan(3000)
    await expectFreeAnswers()

    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(early.map(() => 200))
    const answers = await payChatPatiently([baseUrl], late)
    expect(answers.at(-1)?.status).toBe(200)
  })
})

describe('work that waits for a worker', () => {
  it('keeps new work of its kind out, unpaid and paid, and nothing else', async () => {
    const [waiting, late] = [await sign(), await sign()]
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    const held = payChat(baseUrl, waiting)
    await vi.waitUntil(async () => (await sendChat(baseUrl, randomUUID())).code === 'overloaded', {
      timeout: 20_000,
      interval: 200,
    })
    // Unpaid work is refused first.
    await delay(QUEUE_AGE_SECONDS * 1000)
    expectOverloaded(await sendChat(baseUrl, randomUUID()))
    expectOverloaded(await sendChat(baseUrl, late.idempotencyKey, late.headers))
    expect(await jobs(late)).toBe(0)
    // Another kind of work.
    const images = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
    expect((await sandbox.post('/v1/images/generations', images)).status).toBe(402)
    await expectFreeAnswers()

    await sandbox.restart('worker')
    expect((await held).status).toBe(200)
    const answers = await payChatPatiently([baseUrl], late)
    expect(answers.at(-1)?.status).toBe(200)
  })
})

it('health and discovery answer fast while bodies, held callers and queue age are all at their limits', async () => {
  const chats = await Promise.all(Array.from({ length: HELD }, sign))
  process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  await announce(35)
  await announce(24)
  const body = await announce(1, { expect: '100-continue' })
  await vi.waitUntil(() => body.read().includes('memory'), { timeout: 10_000 })
  const held = chats.map((chat) => payChat(baseUrl, chat))
  const reasonFor = async (path: string, sent: Record<string, unknown>) => await (await sandbox.post(path, sent)).text()
  const image = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
  await vi.waitUntil(async () => (await reasonFor('/v1/images/generations', image)).includes('holds as many callers'), {
    timeout: 20_000,
  })
  await delay(QUEUE_AGE_SECONDS * 1000)
  await expectFreeAnswers()
  await sandbox.restart('worker')
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual(chats.map(() => 200))
  await hangUp()
})
