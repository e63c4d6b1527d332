import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { findFfmpeg } from '#shared/runtime/find-ffmpeg.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type ErrorBody, expectErrorBody } from '../../support/http/expect-refusal.ts'
import { samplesOf, scrape } from '../../support/http/scrape.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'
import { payChat, payChatPatiently, type SignedChat, sendChat, signChat } from '../../support/payer/chat-call.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const TRANSCRIPTIONS = '/v1/audio/transcriptions'
const MEGABYTE = 1024 * 1024
/** 70 MiB are for bodies over 64 KiB. Callers who have not paid may use 52.5 MiB of these, each of them 39. */
const BODY_MEGABYTES = 80
/** Places of held callers; a payer may take two fifths of them, rounded up, and a client half. */
const HELD = 8
const HELD_EACH = 4
/** Other clients than the tests' own, which the API knows by the header of its proxy. */
const STRANGER = { 'x-forwarded-for': '203.0.113.7' }
const ANOTHER_STRANGER = { 'x-forwarded-for': '203.0.113.8' }
const NEIGHBOR = { 'x-forwarded-for': '203.0.113.9' }
/** Longer than any job waits, unless a test backdates it. */
const QUEUE_AGE_SECONDS = 600
let sandbox: TestSandbox
let payer: Payer
/** A payer who pays from elsewhere, and has paid before. */
let neighbor: Payer
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
      TRUSTED_PROXIES: '127.0.0.1',
      MAXIMUM_QUEUE_AGE_SECONDS: String(QUEUE_AGE_SECONDS),
      DECODERS: '1',
      DECODER_WAITING: '0',
      FFMPEG_PATH: decoders.path,
      METRICS_PORT: String(metricsPort),
    },
  })
  baseUrl = sandbox.info.baseUrl
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  neighbor = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  await payChatPatiently([baseUrl], await signChat(baseUrl, neighbor))
})
afterAll(async () => {
  await sandbox.stop()
  await decoders.remove()
})
interface GatedDecoders {
  readonly path: string
  /** Makes every decoder wait until {@link GatedDecoders.open}. */
  close(): Promise<void>
  open(): Promise<void>
  remove(): Promise<void>
}
/**
 * Creates an ffmpeg that waits after the first bytes of its upload while a file exists, since it may have started long before.
 * Its environment is empty, so the script itself names that file.
 */
async function createGatedDecoders(): Promise<GatedDecoders> {
  const ffmpeg = await findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  const directory = await mkdtemp(join(tmpdir(), 'farebox-decoders-'))
  const [path, gate] = [join(directory, 'ffmpeg'), join(directory, 'closed')]
  const input = `dd bs=512 count=1 2>/dev/null; while [ -e '${gate}' ]; do sleep 0.05; done; cat`
  const script = `#!/bin/sh\n{ ${input}; } | '${ffmpeg}' "$@"\n`
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
interface Announced {
  readonly read: () => string
}
/** Opens a connection that is closed after the test. */
function openSocket(): Socket {
  const { hostname, port } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  sockets.push(socket)
  return socket
}
function headOf(megabytes: number, headers: Record<string, string>, path = TRANSCRIPTIONS): string {
  const lines = {
    host: new URL(baseUrl).host,
    'content-type': 'application/json',
    'content-length': String(Math.floor(megabytes * MEGABYTE)),
    'x-idempotency-key': randomUUID(),
    ...headers,
  }
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}`)
  return `POST ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`
}
/** Sends a whole body before it reads a response, as many clients do. Returns what it then reads. */
async function sendBeforeReading(megabytes: number, headers: Record<string, string>): Promise<string> {
  const socket = openSocket().setEncoding('latin1')
  await once(socket, 'connect')
  socket.write(headOf(megabytes, headers))
  const [interim] = 'expect' in headers ? ((await once(socket, 'data')) as [string]) : ['']
  socket.pause()
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject).end(Buffer.alloc(megabytes * MEGABYTE, 'x'), resolve)
  })
  return [interim, ...(await socket.toArray())].join('')
}
/**
 * Announces a body of this size and sends `part` of it; by default it lacks only a byte. With an `expect` header it
 * waits for `100 Continue` first.
 */
async function announce(
  megabytes: number,
  headers: Record<string, string> = {},
  { part = 1, path = TRANSCRIPTIONS } = {},
): Promise<Announced> {
  const socket = openSocket()
  const sendPart = () => socket.write(Buffer.alloc(Math.max(0, Math.floor(megabytes * MEGABYTE * part) - 1), 'x'))
  let received = ''
  socket.on('data', (chunk: Buffer) => {
    if (received === '' && chunk.toString('latin1').startsWith('HTTP/1.1 100 Continue')) sendPart()
    received += chunk.toString('latin1')
  })
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(headOf(megabytes, headers, path))
  if (!('expect' in headers)) sendPart()
  return { read: () => received }
}
/** Sends bodies of these sizes and waits until all of them are in the API's memory. */
async function occupy(headers: Record<string, string>, ...megabytes: readonly number[]): Promise<void> {
  const before = await loadOf('body_bytes')
  for (const size of megabytes) await announce(size, headers)
  const expected = megabytes.reduce((sum, size) => sum + size, 0) * MEGABYTE
  await until(async () => (await loadOf('body_bytes')) >= before + expected)
}
/** Closes the connections of {@link announce}. */
async function hangUp(): Promise<void> {
  for (const socket of sockets.splice(0)) socket.destroy()
  await until(async () => (await loadOf('body_bytes')) === 0)
}
afterEach(hangUp)
/** Backdates the jobs that wait for a worker beyond the permitted age. */
async function backdateWaitingJobs(): Promise<void> {
  const statement = "UPDATE jobs SET run_after = run_after - make_interval(secs => $1) WHERE state = 'accepted'"
  await sandbox.sql(statement, [QUEUE_AGE_SECONDS])
}
const sign = () => signChat(baseUrl, payer)
const signAsNeighbor = async (): Promise<SignedChat> => {
  const chat = await signChat(baseUrl, neighbor)
  return { ...chat, headers: { ...chat.headers, ...NEIGHBOR } }
}
/** Signs as many calls as there are places of held callers. */
const signForAllPlaces = async () =>
  await Promise.all(Array.from({ length: HELD_EACH }, () => [sign(), signAsNeighbor()]).flat())
const pay = async () => await payChat(baseUrl, await sign())
const countJobs = async ({ idempotencyKey }: SignedChat) =>
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
function upload(seed: string, durationMs = 5000): Promise<Response> {
  const audio = generateMp3({ durationMs, seed })
  const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
  return sandbox.transcribe({ body })
}
/** Calls of clients who send what they announce: a chat, an upload and a signed retry. */
async function expectServed(): Promise<void> {
  for (let sent = 0; sent < 20; sent += 1) expect((await sendChat(baseUrl, randomUUID())).status).toBe(402)
  expect((await upload('honest', 40_000)).status).toBe(402)
  expect(await pay()).toMatchObject({ status: 200, code: '' })
}
/** Replaces the signature of a payment by one that its payer did not make. */
function forgeSignature(headers: Readonly<Record<string, string>>): Record<string, string> {
  const [header] = Object.entries(headers)
  if (!header) throw new Error('expected the header of a payment')
  const [name, value] = header
  const payment = JSON.parse(Buffer.from(value, 'base64').toString()) as { payload: { signature: string } }
  payment.payload.signature = `0x${'11'.repeat(64)}1b`
  return { [name]: Buffer.from(JSON.stringify(payment)).toString('base64') }
}
it('health and discovery answer while bodies, held connections and queue age are all at their limits', async () => {
  const [late, chats] = [await sign(), await signForAllPlaces()]
  process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  await occupy(STRANGER, 35)
  await occupy(ANOTHER_STRANGER, 12)
  const body = await announce(8, { expect: '100-continue' })
  await until(() => body.read().includes('memory'))
  const held = chats.map((chat) => payChat(baseUrl, chat))
  await until(async () => (await Promise.all(chats.map(countJobs))).every((count) => count === 1))
  await backdateWaitingJobs()
  await until(async () => (await loadOf('held_connections')) === HELD)
  expect((await payChat(baseUrl, late)).body).toContain('Too many paid requests are in progress')
  expect(await loadOf('body_bytes')).toBeGreaterThanOrEqual((35 + 12) * MEGABYTE)
  await expectFreeAnswers()
  await sandbox.restart('worker')
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual(chats.map(() => 200))
})

describe('request bodies', () => {
  it('rejects a body beyond the memory limit before it is sent, while health and discovery answer', async () => {
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
    // A small body still fits.
    expect((await sendChat(baseUrl, randomUUID())).status).toBe(402)
  })

  it('delivers the refusal to a client that is still sending its body', async () => {
    await occupy({}, 35)
    const body = Buffer.alloc(30 * MEGABYTE, 'x')
    const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
    const answer = await fetch(`${baseUrl}${TRANSCRIPTIONS}`, { method: 'POST', headers, body })
    await expectErrorBody(answer, { status: 503, code: 'overloaded', param: null })
  })

  it.each([
    ['', {}, /^HTTP\/1\.1 503 /],
    [', after 100 Continue', { expect: '100-continue' }, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 503 /],
  ])(
    'refuses a body of which a part was read, to a client that sends all before it reads%s',
    async (_, headers, head) => {
      await occupy(STRANGER, 35)
      await occupy(ANOTHER_STRANGER, 12)
      const received = await sendBeforeReading(30, headers)
      expect(received).toMatch(head)
      expect(received).toContain('The memory for request bodies is in use')
    },
  )

  it('accepts the body of a payer who has paid before when others no longer fit', async () => {
    expect(await pay()).toMatchObject({ status: 200, code: '' })
    const idempotencyKey = randomUUID()
    const audio = generateMp3({ durationMs: 300_000, bitrate: 320 })
    const body = { model: 'speechvendor/scribe-v2', audio_base64: Buffer.from(audio).toString('base64') }
    const challenge = challengeOf(await sandbox.transcribe({ idempotencyKey, body }))
    const payment = paymentHeader(await signCustomPayment(challenge, payer))
    await occupy(STRANGER, 38)
    // With these 15 MiB more than the 52 MiB for others are in use.
    expect((await sandbox.transcribe({ body })).status).toBe(503)
    expect((await sandbox.transcribe({ idempotencyKey, body, headers: payment })).status).toBe(200)
  })
})

describe('one client that is after the room of others', () => {
  /** Large bodies first, then smaller and smaller ones for what they leave. */
  const sizes = [24, 12, 6, 3, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.001, 0.0001].flatMap((size) => [size, size, size, size])

  it('serves other clients while one announces bodies that it does not send', async () => {
    for (const size of sizes) await announce(size, STRANGER, { part: 0 })
    await expectServed()
  })
  it('serves other clients while one announces bodies with forged payments', async () => {
    const { idempotencyKey, headers } = await sign()
    const forged = { ...STRANGER, 'x-idempotency-key': idempotencyKey, ...forgeSignature(headers) }
    for (const size of sizes) await announce(size, forged, { part: 0 })
    await expectServed()
  })
  it('serves other clients while one fills as much memory as it is given', async () => {
    for (const size of sizes) await announce(size, STRANGER)
    await until(async () => (await loadOf('body_bytes')) >= 36 * MEGABYTE)
    await expectServed()
  })
  it('reserves no place of held callers for payments whose bodies never arrive', async () => {
    const poor = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 0n, approved: false })
    const { idempotencyKey, headers } = await signChat(baseUrl, poor)
    const unfunded = { ...STRANGER, 'x-idempotency-key': idempotencyKey, ...headers }
    const path = '/v1/chat/completions'
    for (let sent = 0; sent < 5 * HELD; sent += 1) {
      await announce(0.01, unfunded, { part: 0, path })
      await announce(0.01, { ...unfunded, ...forgeSignature(headers) }, { part: 0, path })
    }
    expect(await pay()).toMatchObject({ status: 200, code: '' })
    expect(await loadOf('held_connections')).toBe(0)
  })
})

describe('decoders', () => {
  it('an ffmpeg starts when a recording is announced and decodes the next one, and another one follows', async () => {
    const api = sandbox.pidOf('api')
    const children = async () => {
      const pids = await readFile(`/proc/${api}/task/${api}/children`, 'utf8')
      return pids.split(' ').filter(Boolean).map(Number)
    }
    for (const pid of await children()) process.kill(pid, 'SIGKILL')
    await until(async () => (await children()).length === 0)
    await announce(1)
    await until(async () => (await children()).length === 1)
    const [first] = await children()
    expect((await upload('announced')).status).toBe(402)
    expect(await children()).not.toContain(first)
    await until(async () => (await children()).length === 1)
  })

  it('rejects uploads, and nothing else, while all decoders are busy', async () => {
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

describe('held connections', () => {
  it('answers a payer’s further calls with their state while the rest of the places stays free for others', async () => {
    const calls = await Promise.all(Array.from({ length: HELD_EACH + 1 }, sign))
    const others = await signAsNeighbor()
    const upstream = sandbox.pidOf('upstream')
    process.kill(upstream, 'SIGSTOP')
    onTestFinished(() => void process.kill(upstream, 'SIGCONT'))
    const answers: Awaited<ReturnType<typeof payChat>>[] = []
    const paid = calls.map(async (chat) => void answers.push(await payChat(baseUrl, chat)))
    await until(() => answers.length === 1)
    expect(answers).toMatchObject([{ status: 503, code: 'request_in_progress', payment: 'authorized' }])
    const held = payChat(baseUrl, others)
    await until(async () => (await loadOf('held_connections')) === HELD_EACH + 1)
    process.kill(upstream, 'SIGCONT')
    await Promise.all(paid)
    expect((await held).status).toBe(200)
    expect(answers.slice(1).map(({ status }) => status)).toEqual(Array.from({ length: HELD_EACH }, () => 200))
  })
  it('holds at most three callers of one job, and answers the others with its state', async () => {
    const chat = await sign()
    const upstream = sandbox.pidOf('upstream')
    process.kill(upstream, 'SIGSTOP')
    onTestFinished(() => void process.kill(upstream, 'SIGCONT'))
    const answers: Awaited<ReturnType<typeof payChat>>[] = []
    const calls = Array.from({ length: 20 }, async () => void answers.push(await payChat(baseUrl, chat)))
    await until(() => answers.length === calls.length - 3)
    expect(await loadOf('held_connections')).toBe(3)
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 503, code: 'request_in_progress', payment: 'authorized' })
    process.kill(upstream, 'SIGCONT')
    await Promise.all(calls)
    const results = [...answers.slice(-3), await payChat(baseUrl, chat)]
    expect(results.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(new Set(results.map(({ body }) => body)).size).toBe(1)
  })
  it('rejects a payment beyond the connection limit before accepting it, and answers paid callers with their job’s state', async () => {
    const finished = await sign()
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const [late, accepted] = [await sign(), await signForAllPlaces()]
    const upstream = sandbox.pidOf('upstream')
    process.kill(upstream, 'SIGSTOP')
    onTestFinished(() => void process.kill(upstream, 'SIGCONT'))
    const held = accepted.map((chat) => payChat(baseUrl, chat))
    await until(async () => (await Promise.all(accepted.map(countJobs))).every((count) => count === 1))
    await until(async () => (await loadOf('held_connections')) === HELD)

    // A quote takes no place.
    expect((await sendChat(baseUrl, randomUUID())).status).toBe(402)
    expectOverloaded(await sendChat(baseUrl, late.idempotencyKey, late.headers))
    expect(await countJobs(late)).toBe(0)
    expect((await payChat(baseUrl, finished)).status).toBe(200)
    const [own] = accepted
    if (!own) throw new Error('expected held connections')
    expect(await payChat(baseUrl, own)).toMatchObject({
      status: 503,
      code: 'request_in_progress',
      payment: 'authorized',
    })
    await expectFreeAnswers()

    process.kill(upstream, 'SIGCONT')
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual(accepted.map(() => 200))
    const answers = await payChatPatiently([baseUrl], late)
    expect(answers.at(-1)?.status).toBe(200)
  })
})

describe('work that waits for a worker', () => {
  it('rejects new work of a kind whose jobs wait too long, and nothing else', async () => {
    const [waiting, late] = [await sign(), await sign()]
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    const held = payChat(baseUrl, waiting)
    await until(async () => (await countJobs(waiting)) === 1)
    await backdateWaitingJobs()
    // The API reads the age once a second.
    await until(async () => (await sendChat(baseUrl, randomUUID())).code === 'overloaded')
    expectOverloaded(await sendChat(baseUrl, randomUUID()))
    expectOverloaded(await sendChat(baseUrl, late.idempotencyKey, late.headers))
    expect(await countJobs(late)).toBe(0)
    // A different kind of work is still accepted.
    const images = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse' }
    expect((await sandbox.post('/v1/images/generations', images)).status).toBe(402)
    await expectFreeAnswers()

    await sandbox.restart('worker')
    expect((await held).status).toBe(200)
    const answers = await payChatPatiently([baseUrl], late)
    expect(answers.at(-1)?.status).toBe(200)
  })
})
