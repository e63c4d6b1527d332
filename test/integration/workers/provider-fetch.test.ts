import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createHttp } from '../../../workers/providers/http.ts'
import { createProviderFetch } from '../../../workers/providers/provider-fetch.ts'
import { CERTIFICATE, KEY } from '../../support/http/image-server.ts'
import { PATIENCE_MS } from '../../support/patience.ts'

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
const send = (body: FormData | string, timeoutMs = PATIENCE_MS) =>
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

it('sends a form with its text and its file', async () => {
  const form = new FormData()
  form.set('model', 'scribe')
  form.set('file', new Blob([Buffer.from('ID3 bytes')], { type: 'audio/mpeg' }), 'audio.mp3')
  const sending = send(form)
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
    expect(await answer.text()).toBe('1.1')
  } finally {
    vi.unstubAllEnvs()
    secure.close()
  }
})
