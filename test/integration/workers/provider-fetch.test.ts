import { randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createHttp } from '../../../workers/providers/http.ts'
import { createProviderFetch } from '../../../workers/providers/provider-fetch.ts'
import { type StreamedBody, streamedForm } from '../../../workers/providers/streamed-body.ts'
import { CERTIFICATE, KEY } from '../../support/http/image-server.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { until } from '../../support/until.ts'

let server: Server
let url: string
let arrived: PromiseWithResolvers<{ request: IncomingMessage; response: ServerResponse }>
beforeEach(async () => {
  arrived = Promise.withResolvers()
  server = createServer((request, response) => arrived.resolve({ request, response }))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})
afterEach(() => {
  vi.useRealTimers()
  server.closeAllConnections()
  server.close()
})

const POST = { method: 'POST', headers: {} } as const
const send = (body: StreamedBody | string, timeoutMs = PATIENCE_MS) =>
  createHttp({ fetch: createProviderFetch() })({ ...POST, url, body }, { timeoutMs, maximumResponseBytes: 1000 })

it('waits for a vendor that sends nothing for ten minutes, as before the end of a long answer', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const answered = send('{}', 700_000)
  const { response } = await arrived.promise
  // The client looks at its clock about once a second.
  for (let second = 0; second < 600; second += 1) await vi.advanceTimersByTimeAsync(1000)
  response.end('the long answer')
  const outcome = await answered
  expect(outcome.outcome === 'response' && Buffer.from(outcome.bytes).toString()).toBe('the long answer')
})

it('uses a connection again after a stream that ended, and closes one whose stream is no longer needed', async () => {
  const sockets = new Set<unknown>()
  server.removeAllListeners('request')
  server.on('request', ({ socket }, response) => {
    sockets.add(socket)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: ended\n\n')
    response.end()
  })
  const http = createHttp({ fetch: createProviderFetch() })
  const limits = { timeoutMs: PATIENCE_MS, maximumResponseBytes: 1000, onEvent: () => 'ended' as const }
  let calls = 0
  await until(async () => {
    expect(await http({ ...POST, url, body: '{}' }, limits)).toMatchObject({ outcome: 'response', streamed: 'ended' })
    calls += 1
    return sockets.size < calls
  })

  const closed = Promise.withResolvers<void>()
  server.removeAllListeners('request')
  server.on('request', (_, response) => {
    response.once('close', closed.resolve)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: an error\n\n')
  })
  const unusable = { ...limits, onEvent: () => 'unusable' as const }
  expect(await http({ ...POST, url, body: '{}' }, unusable)).toMatchObject({ streamed: 'unusable' })
  await closed.promise
})

it('closes the connection of a stream that stands still', async () => {
  const http = createHttp({ fetch: createProviderFetch(), stallMs: 1 })
  const closed = Promise.withResolvers<void>()
  server.removeAllListeners('request')
  server.on('request', (_, response) => {
    response.once('close', closed.resolve)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: a word\n\n')
  })
  const limits = { timeoutMs: PATIENCE_MS, maximumResponseBytes: 1000, onEvent: () => 'writing' as const }
  expect(await http({ ...POST, url, body: '{}' }, limits)).toMatchObject({ outcome: 'unknown', streamed: 'writing' })
  await closed.promise
})

const COMPRESSIONS = [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const

it.each(COMPRESSIONS)('reads a response compressed with %s, and counts what it becomes', async (encoding, compress) => {
  for (const [text, expected] of [
    ['the answer', { outcome: 'response', bytes: Buffer.from('the answer') }],
    // A few bytes before decompression.
    ['a'.repeat(1001), { outcome: 'unknown', status: 200, reason: 'response larger than 1000 bytes' }],
  ] as const) {
    const sending = send('{}')
    const { request, response } = await arrived.promise
    expect(request.headers['accept-encoding']).toContain(encoding)
    response.writeHead(200, { 'content-encoding': encoding }).end(compress(text))
    expect(await sending).toMatchObject(expected)
    arrived = Promise.withResolvers()
  }
})

it.each([
  ['is damaged', (whole: Buffer) => Buffer.from(whole.toReversed())],
  ['ends early', (whole: Buffer) => whole.subarray(0, -12)],
])('takes a compressed response that %s for none', async (_, damaged) => {
  const sending = send('{}')
  const { response } = await arrived.promise
  response.writeHead(200, { 'content-encoding': 'gzip' }).end(damaged(gzipSync('the answer')))
  expect(await sending).toMatchObject({ outcome: 'unknown', status: 200 })
})

it('sends a form with its text and its file', async () => {
  const sending = send(formWith(Buffer.from('ID3 bytes')))
  const { request, response } = await arrived.promise
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  response.end('heard')
  expect(await sending).toMatchObject({ outcome: 'response', status: 200 })
  const received = await new Response(Buffer.concat(chunks), {
    headers: { 'content-type': request.headers['content-type'] ?? '' },
  }).formData()
  expect(received.get('model')).toBe('scribe')
  const file = received.get('file')
  if (!(file instanceof File)) throw new Error('no file')
  expect([file.name, file.type, await file.text()]).toEqual(['audio.mp3', 'audio/mpeg', 'ID3 bytes'])
})

const formWith = (bytes: Uint8Array) =>
  streamedForm({ model: 'scribe' }, { field: 'file', name: 'audio.mp3', contentType: 'audio/mpeg', bytes })

/** Reads the whole request and answers it. */
async function readWhole(): Promise<{ request: IncomingMessage; body: Buffer }> {
  const { request, response } = await arrived.promise
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  response.end('heard')
  return { request, body: Buffer.concat(chunks) }
}

it('announces the exact length of a form and of a long text, since vendors refuse bodies without one', async () => {
  // Of an odd length, so that a surrogate pair lies across the pieces.
  const text = `{"text":"${'é'.repeat(3)}${'🚋'.repeat(300_000)}"}`
  for (const body of [formWith(randomBytes(3_000_001)), text]) {
    const sending = send(body)
    const received = await readWhole()
    const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.bytes
    expect(received.request.headers).toMatchObject({ 'content-length': String(bytes) })
    expect(received.request.headers).not.toHaveProperty('transfer-encoding')
    expect(received.body).toHaveLength(bytes)
    expect(typeof body !== 'string' || received.body.equals(Buffer.from(body))).toBe(true)
    expect(await sending).toMatchObject({ outcome: 'response', status: 200 })
    arrived = Promise.withResolvers()
  }
})

it('sends a form that one deployment has refused to the next one, byte for byte', async () => {
  const form = formWith(randomBytes(200_000))
  const bodies: Buffer[] = []
  for (let call = 0; call < 2; call += 1) {
    const sending = send(form)
    bodies.push((await readWhole()).body)
    await sending
    arrived = Promise.withResolvers()
  }
  expect(bodies[0]?.equals(bodies[1] ?? Buffer.alloc(0))).toBe(true)
})

it.each([307, 401, 413, 421, 429])('returns status %d of a streamed request as a response', async (status) => {
  const sending = send(formWith(randomBytes(300_000)))
  const { request, response } = await arrived.promise
  request.resume()
  response.writeHead(status, { location: '/elsewhere' }).end('why')
  expect(await sending).toMatchObject({ outcome: 'response', status })
})

it('sends a large form in small pieces, since TLS copies each of them', async () => {
  const form = formWith(randomBytes(8 * 1024 * 1024))
  const stream = form.open()
  let longest = 0
  for await (const piece of stream) longest = Math.max(longest, piece.length)
  expect(longest).toBeLessThanOrEqual(64 * 1024)
})

it('distinguishes a refused connection, which no vendor has seen, from a lost one', async () => {
  const sending = send('{}')
  const { request } = await arrived.promise
  request.socket.destroy()
  expect(await sending).toMatchObject({ outcome: 'unknown' })
  server.close()
  server.closeAllConnections()
  expect(await send('{}')).toEqual({ outcome: 'not_sent', reason: 'ECONNREFUSED' })
})

it('speaks HTTP/1.1 to a vendor that offers HTTP/2, so that no call shares a connection with others', async () => {
  const secure = createSecureServer({ cert: CERTIFICATE, key: KEY, allowHTTP1: true }, (request, response) => {
    response.end(request.httpVersion)
  })
  await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve))
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  try {
    const { port } = secure.address() as AddressInfo
    const answer = await createProviderFetch()(`https://127.0.0.1:${port}/`, {
      method: 'POST',
      headers: {},
      body: '{}',
      redirect: 'manual',
      signal: AbortSignal.timeout(PATIENCE_MS),
    })
    expect(await new Response(answer.body).text()).toBe('1.1')
  } finally {
    vi.unstubAllEnvs()
    secure.close()
  }
})
