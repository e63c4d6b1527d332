import { randomUUID } from 'node:crypto'
import { request as requestByNode } from 'node:http'
import { connect } from 'node:net'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { Agent, request as requestByUndici } from 'undici'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type AnswerGate, startAnswerGate } from '../support/http/answer-gate.ts'
import {
  challengeOf,
  createPayer,
  paymentHeader,
  signCustomPayment,
  type TestPayer,
} from '../support/payer/custom-payment.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

const PATH = '/v1/chat/completions'
const INTERIM_MS = 100
/** Several interim answers long, for clients that do not tell of them. */
const UPSTREAM_MS = 800
/** Many times longer than an interim answer is waited for. undici looks at its clock every half second. */
const UNDICI_PATIENCE_MS = 3000

const body = JSON.stringify({ model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello' }] })

let sandbox: TestSandbox
let payer: TestPayer
/** Between the worker and the vendors. */
let vendors: AnswerGate
beforeAll(async () => {
  sandbox = await startTestSandbox({
    apis: 2,
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    apiEnvironment: { INTERIM_ANSWER_SECONDS: String(INTERIM_MS / 1000) },
    environmentOf: (name): Record<string, string> => (name === 'api-2' ? { INTERIM_ANSWER_SECONDS: '0' } : {}),
  })
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  await sandbox.setFaults([{ fault: 'none', delayMs: UPSTREAM_MS, times: 'always' }])
})
afterEach(() => vendors.release())
afterAll(async () => {
  await sandbox.stop()
  await vendors.stop()
})

/** Of a payer who approved Permit2, so that a caller who gave up is not in the way of the next one. */
async function sign(challenge: Response): Promise<Record<string, string>> {
  return paymentHeader(await signCustomPayment(challengeOf(challenge), payer))
}

/** The headers of a chat that is ready to be paid for. */
async function signedHeaders(): Promise<Record<string, string>> {
  const headers = { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() }
  const challenge = await fetch(`${sandbox.info.baseUrl}${PATH}`, { method: 'POST', headers, body })
  expect(challenge.status).toBe(402)
  return { ...headers, ...(await sign(challenge)) }
}

/** Everything that the server sends on a socket of its own; `onAnswers` is told of what has come so far. */
async function sendRaw(
  version: '1.0' | '1.1',
  baseUrl = sandbox.info.baseUrl,
  onAnswers: (answers: string) => void = () => undefined,
): Promise<string> {
  const { hostname, port, host } = new URL(baseUrl)
  const headers = { host, ...(await signedHeaders()), 'content-length': body.length, connection: 'close' }
  const socket = connect(Number(port), hostname)
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.write(`POST ${PATH} HTTP/${version}\r\n${lines.join('\r\n')}\r\n\r\n${body}`)
  let answers = ''
  for await (const piece of socket) {
    answers += (piece as Buffer).toString()
    onAnswers(answers)
  }
  return answers
}

const statusLines = (answer: string) => answer.match(/^HTTP\/1\.1 \d{3}/gm)

describe('a caller who is held', () => {
  it('gets interim answers and then the one that counts', async () => {
    vendors.hold()
    const answer = await sendRaw('1.1', sandbox.info.baseUrl, (answers) => {
      if ((statusLines(answers)?.length ?? 0) >= 3) vendors.release()
    })
    const [final, ...interim] = statusLines(answer)?.toReversed() ?? []
    expect(final).toBe('HTTP/1.1 200')
    expect(interim.length).toBeGreaterThanOrEqual(3)
    expect(new Set(interim)).toEqual(new Set(['HTTP/1.1 102']))
    expect(answer).toContain('"object":"chat.completion"')
  })
  it('over HTTP/1.0 gets nothing but the answer', async () => {
    const answer = await sendRaw('1.0')
    expect(statusLines(answer)).toEqual(['HTTP/1.1 200'])
    expect(answer).toContain('"object":"chat.completion"')
  })
  it('gets nothing but the answer where interim answers are off', async () => {
    expect(statusLines(await sendRaw('1.1', sandbox.info.baseUrls[1]))).toEqual(['HTTP/1.1 200'])
  })
  it('is refused as before, without interim answers, when nothing is to be waited for', async () => {
    const answer = await fetch(`${sandbox.info.baseUrl}${PATH}`, {
      method: 'POST',
      headers: await signedHeaders(),
      body: '{}',
    })
    expect(answer.status).toBe(400)
  })
})

describe('clients read past interim answers, and live longer than their own patience:', () => {
  it('fetch', async () => {
    const headers = await signedHeaders()
    const answer = await fetch(`${sandbox.info.baseUrl}${PATH}`, { method: 'POST', headers, body })
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ object: 'chat.completion' })
  })
  it('undici, whose patience ends before the answer comes', async () => {
    vendors.hold()
    const dispatcher = new Agent({ headersTimeout: UNDICI_PATIENCE_MS })
    const ask = async (baseUrl: string | undefined) =>
      await requestByUndici(`${baseUrl}${PATH}`, { dispatcher, method: 'POST', headers: await signedHeaders(), body })
    const { length: callsBefore } = await sandbox.upstreamCalls()
    const asked = ask(sandbox.info.baseUrls[0])
    await until(async () => (await sandbox.upstreamCalls()).length > callsBefore)
    // Asked later, so that the first one's patience has ended as well.
    await expect(ask(sandbox.info.baseUrls[1])).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' })
    vendors.release()
    const held = await asked
    expect(held.statusCode).toBe(200)
    await held.body.dump()
    await dispatcher.destroy()
  })
  it('Node’s http, which tells of them', async () => {
    const headers = await signedHeaders()
    vendors.hold()
    const told: number[] = []
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
    const request = requestByNode(`${sandbox.info.baseUrl}${PATH}`, { method: 'POST', headers }, (answer) => {
      answer.resume()
      resolve(answer.statusCode)
    })
    request.on('error', reject).on('information', ({ statusCode }) => {
      told.push(statusCode)
      vendors.release()
    })
    request.end(body)
    expect(await promise).toBe(200)
    expect(new Set(told)).toEqual(new Set([102]))
  })
  it('the openai SDK', async () => {
    const { 'content-type': _, ...headers } = await signedHeaders()
    const client = new OpenAI({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', maxRetries: 0 })
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const result = await client.chat.completions.create({ model: 'textmodel-2.5-flash', messages }, { headers })
    expect(result.object).toBe('chat.completion')
  })
  it('the Anthropic SDK', async () => {
    const client = new Anthropic({ baseURL: sandbox.info.baseUrl, apiKey: 'not-used', maxRetries: 0 })
    const message = {
      model: 'textmodel-2.5-flash',
      max_tokens: 100,
      messages: [{ role: 'user' as const, content: 'Hello' }],
    }
    const key = { 'x-idempotency-key': randomUUID() }
    const challenge = await fetch(`${sandbox.info.baseUrl}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...key },
      body: JSON.stringify(message),
    })
    const headers = { ...key, ...(await sign(challenge)) }
    expect((await client.messages.create(message, { headers })).type).toBe('message')
  })
})
