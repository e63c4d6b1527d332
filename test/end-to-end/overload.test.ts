import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { findFfmpeg } from '../../api/request/audio/find-ffmpeg.ts'
import { findFreePort } from '../../infra/sandbox/free-port.ts'
import { type ErrorBody, expectErrorBody } from '../support/http/expect-refusal.ts'
import { samplesOf, scrape } from '../support/http/scrape.ts'
import { generateMp3 } from '../support/media/mp3-generator.ts'
import { payChat, payChatPatiently, type SignedChat, sendChat, signChat } from '../support/payer/chat-call.ts'
import { createPayer, type TestPayer } from '../support/payer/custom-payment.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

const TRANSCRIPTIONS = '/v1/audio/transcriptions'
const MEGABYTE = 1024 * 1024
/** Unpaid requests may take three quarters of it. */
const BODY_MEGABYTES = 80
const HELD = 4
/** No job waits for so long, unless a test says that it did. */
const QUEUE_AGE_SECONDS = 600

let sandbox: TestSandbox
let payer: TestPayer
let baseUrl: string
let metricsPort: number
let decoders: GatedDecoders
beforeAll(async () => {
  metricsPort = await findFreePort()
  decoders = await createGatedDecoders()
  sandbox = await startTestSandbox({
    apiEnvironment: {
      MAXIMUM_BODY_MEGABYTES: String(BODY_MEGABYTES),
      MAXIMUM_HELD_CONNECTIONS: String(HELD),
      MAXIMUM_QUEUE_AGE_SECONDS: String(QUEUE_AGE_SECONDS),
      DECODERS: '1',
      DECODER_WAITING: '0',
      FFMPEG_PATH: decoders.path,
      METRICS_PORT: String(metricsPort),
    },
  })
  baseUrl = sandbox.info.baseUrl
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
})
afterAll(async () => {
  await sandbox.stop()
  await decoders.remove()
})

interface GatedDecoders {
  readonly path: string
  /** From now on no decode gets on. */
  close(): Promise<void>
  open(): Promise<void>
  remove(): Promise<void>
}

/** ffmpeg behind a gate. It runs with an empty environment, so the script itself names the file that closes the gate. */
async function createGatedDecoders(): Promise<GatedDecoders> {
  const ffmpeg = await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  const directory = await mkdtemp(join(tmpdir(), 'farebox-decoders-'))
  const [path, gate] = [join(directory, 'ffmpeg'), join(directory, 'closed')]
  const script = `#!/bin/sh\nwhile [ -e '${gate}' ]; do sleep 0.05; done\nexec '${ffmpeg}' "$@"\n`
  await writeFile(path, script, { mode: 0o755 })
  return {
    path,
    close: () => writeFile(gate, ''),
    open: () => rm(gate, { force: true }),
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}

const loadOf = async (of: 'body_bytes' | 'held_connections') =>
  samplesOf(await scrape(metricsPort), 'farebox_load')[`{of="${of}"}`] ?? 0
const busyDecoders = async () => samplesOf(await scrape(metricsPort), 'farebox_decoders')['{state="busy"}']

const sockets: Socket[] = []

/**
 * Announces a body of this size and sends half of it, so that it is not taken for one that comes too slowly. With `expect` it
 * asks first whether it is wanted.
 */
async function announce(megabytes: number, headers: Record<string, string> = {}): Promise<{ read: () => string }> {
  const { hostname, port, host } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  sockets.push(socket)
  const sendHalf = () => socket.write(Buffer.alloc((megabytes * MEGABYTE) / 2, 'x'))
  let received = ''
  socket.on('data', (chunk: Buffer) => {
    if (received === '' && chunk.toString('latin1').startsWith('HTTP/1.1 100 Continue')) sendHalf()
    received += chunk.toString('latin1')
  })
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
  if (!('expect' in headers)) sendHalf()
  return { read: () => received }
}

/** Begins bodies of these sizes; room is kept for all of them when it returns. */
async function occupy(...megabytes: readonly number[]): Promise<void> {
  const before = await loadOf('body_bytes')
  for (const size of megabytes) await announce(size)
  const more = megabytes.reduce((sum, size) => sum + size, 0) * MEGABYTE
  await until(async () => (await loadOf('body_bytes')) >= before + more)
}

/** Ends what `announce` began. */
async function hangUp(): Promise<void> {
  for (const socket of sockets.splice(0)) socket.destroy()
  await until(async () => (await loadOf('body_bytes')) === 0)
}

/** Makes the jobs that wait for a worker as old as they may not be. */
async function growOld(): Promise<void> {
  const statement = "UPDATE jobs SET run_after = run_after - make_interval(secs => $1) WHERE state = 'accepted'"
  await sandbox.sql(statement, [QUEUE_AGE_SECONDS])
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
    await until(() => first.read().startsWith('HTTP/1.1 100 Continue'))
    const second = await announce(30, { expect: '100-continue' })
    await until(() => second.read().includes('\r\n\r\n{'))
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
    await occupy(35)
    const body = Buffer.alloc(30 * MEGABYTE, 'x')
    const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
    const answer = await fetch(`${baseUrl}${TRANSCRIPTIONS}`, { method: 'POST', headers, body })
    await expectErrorBody(answer, { status: 503, code: 'overloaded', param: null })
    await hangUp()
  })

  it('of callers who bring a payment find room where unpaid ones do not', async () => {
    const idempotencyKey = randomUUID()
    const audio = generateMp3({ durationMs: 480_000, bitrate: 320 })
    const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
    const payment = await sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey, body }))
    await occupy(38)
    // With these 24 MiB it is more than the 60 that unpaid requests share.
    expect((await sandbox.transcribe({ body })).status).toBe(503)
    expect((await sandbox.transcribe({ idempotencyKey, body, headers: payment })).status).toBe(200)
    await hangUp()
  })
})

function upload(seed: string): Promise<Response> {
  const audio = generateMp3({ durationMs: 5000, seed })
  const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
  return sandbox.transcribe({ body })
}

describe('decoders', () => {
  it('that are busy refuse further uploads, and nothing else', async () => {
    await decoders.close()
    onTestFinished(() => decoders.open())
    const answers: Response[] = []
    const uploads = ['a', 'b', 'c'].map(async (seed) => {
      answers.push(await upload(seed))
    })
    await until(() => answers.length === uploads.length - 1)
    expect(await busyDecoders()).toBe(1)
    for (const answer of [...answers, await upload('d')])
      await expectErrorBody(answer, { status: 503, code: 'overloaded', param: null })
    expect((await sendChat(baseUrl, randomUUID())).status).toBe(402)
    await expectFreeAnswers()
    expect(await busyDecoders()).toBe(1)
    await decoders.open()
    await Promise.all(uploads)
    expect(answers.at(-1)?.status).toBe(402)
  })
})

describe('held callers', () => {
  it('beyond the limit are refused before their payment is taken; whoever paid already is told how his job stands', async () => {
    const finished = await sign()
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const [late, ...early] = await Promise.all(Array.from({ length: HELD + 1 }, sign))
    if (!late) throw new Error('one payment is late')
    const upstream = sandbox.pidOf('upstream')
    process.kill(upstream, 'SIGSTOP')
    onTestFinished(() => void process.kill(upstream, 'SIGCONT'))
    const held = early.map((chat) => payChat(baseUrl, chat))
    await until(async () => (await Promise.all(early.map(jobs))).every((count) => count === 1))
    expect(await loadOf('held_connections')).toBe(HELD)

    expectOverloaded(await sendChat(baseUrl, randomUUID()))
    expectOverloaded(await sendChat(baseUrl, late.idempotencyKey, late.headers))
    expect(await jobs(late)).toBe(0)
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const [own] = early
    if (!own) throw new Error('somebody is held')
    expect(await payChat(baseUrl, own)).toMatchObject({
      status: 503,
      code: 'request_in_progress',
      payment: 'authorized',
    })
    await expectFreeAnswers()

    process.kill(upstream, 'SIGCONT')
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
    await until(async () => (await jobs(waiting)) === 1)
    await growOld()
    // Its age is read once a second.
    await until(async () => (await sendChat(baseUrl, randomUUID())).code === 'overloaded')
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
  await occupy(35, 24)
  const body = await announce(1, { expect: '100-continue' })
  await until(() => body.read().includes('memory'))
  const held = chats.map((chat) => payChat(baseUrl, chat))
  await until(async () => (await Promise.all(chats.map(jobs))).every((count) => count === 1))
  await growOld()
  const image = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
  expect(await (await sandbox.post('/v1/images/generations', image)).text()).toContain('holds as many callers')
  expect(await loadOf('held_connections')).toBe(HELD)
  expect(await loadOf('body_bytes')).toBeGreaterThanOrEqual((35 + 24) * MEGABYTE)
  await expectFreeAnswers()
  await sandbox.restart('worker')
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual(chats.map(() => 200))
  await hangUp()
})
