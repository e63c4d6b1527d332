import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../../../infra/sandbox/processes/free-port.ts'
import { type AnswerGate, startAnswerGate } from '../../../support/http/answer-gate.ts'
import { samplesOf, scrape } from '../../../support/http/scrape.ts'
import { createX402McpClient, type X402McpClient } from '../../../support/mcp/x402-mcp-client.ts'
import { signCustomPayment } from '../../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../../support/processes/test-sandbox.ts'
import { until } from '../../../support/until.ts'

const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const KEY = 'farebox/idempotency-key'
const PAYMENT = 'x402/payment'
const INTERIM_MS = 100
/** So many that no test but the one about it uses them up within a minute, and refilled slowly. */
const PER_MINUTE = 40

let sandbox: TestSandbox
let vendors: AnswerGate
let client: X402McpClient
let payer: Payer
let metricsPort: number
beforeAll(async () => {
  metricsPort = await findFreePort()
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    apiEnvironment: {
      METRICS_PORT: String(metricsPort),
      REQUESTS_PER_MINUTE: String(PER_MINUTE),
      INTERIM_ANSWER_SECONDS: String(INTERIM_MS / 1000),
    },
  })
  const { baseUrl, rpcUrl, network, payer: own } = sandbox.info
  client = createX402McpClient({ url: `${baseUrl}/mcp`, privateKey: own.privateKey, rpcUrl, network })
  payer = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
})
afterEach(() => vendors.release())
afterAll(async () => {
  await sandbox.stop()
  await vendors.stop()
})

async function sign(): Promise<Record<string, unknown>> {
  const meta = { [KEY]: randomUUID() }
  const challenge = (await client.call('chat', CHAT, meta)).structuredContent
  return { ...meta, [PAYMENT]: await signCustomPayment(challenge as never, payer) }
}

/** Sends a signed call; `interim` counts the interim answers until `answer` resolves. */
function send(meta: object) {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'chat', arguments: CHAT, _meta: meta },
  })
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const sent = request(`${sandbox.info.baseUrl}/mcp`, { method: 'POST', headers })
  const state = { interim: 0, requestId: '', destroy: () => sent.destroy() }
  sent.on('information', () => {
    state.interim += 1
  })
  const { promise: answer, resolve, reject } = Promise.withResolvers<string>()
  sent.on('error', reject)
  sent.on('response', (response) => {
    state.requestId = String(response.headers['x-request-id'])
    let text = ''
    response.on('data', (piece: Buffer) => {
      text += piece.toString()
    })
    response.on('end', () => resolve(text))
  })
  sent.end(body)
  return { state, answer }
}

const requests = async () => samplesOf(await scrape(metricsPort), 'farebox_requests_total')
/** Returns how many chats were refused for the rate limit, at the endpoint and as tools. */
const refusedChats = async () =>
  Object.entries(await requests()).find(
    ([labels]) => labels.includes('createChatCompletion') && labels.includes('rate_limited'),
  )?.[1] ?? 0
const held = async () => samplesOf(await scrape(metricsPort), 'farebox_load')['{of="held_connections"}']

/** Lists the tools. */
const list = () =>
  fetch(`${sandbox.info.baseUrl}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })

describe('a caller who waits for a tool', () => {
  it('is kept by interim answers until the result', async () => {
    const signed = await sign()
    vendors.hold()
    const { state, answer } = send(signed)
    await until(() => state.interim >= 3)
    await until(async () => (await held()) === 1)
    vendors.release()
    expect(JSON.parse(await answer)).toMatchObject({ result: { structuredContent: { object: 'chat.completion' } } })
    await until(async () => (await held()) === 0)
  })

  it('who leaves frees their place, and gets the result of the same call later, charged once', async () => {
    const signed = await sign()
    const before = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
    vendors.hold()
    const { state, answer } = send(signed)
    await until(async () => (await held()) === 1)
    state.destroy()
    await expect(answer).rejects.toThrow('socket hang up')
    await until(async () => (await held()) === 0)
    vendors.release()
    expect(JSON.parse(await send(signed).answer)).toMatchObject({ result: { structuredContent: {} } })
    expect((await sandbox.chain.transfersTo(sandbox.info.payTo)).length).toBe(before + 1)
  })
})

describe('what operators see of a tool call', () => {
  it('is counted as a request to its endpoint, with the status of its endpoint', async () => {
    const [before, signed] = [await requests(), await sign()]
    await client.call('chat', CHAT, signed)
    await client.call('chat', { ...CHAT, max_tokens: -1 })
    const after = await requests()
    const added = Object.entries(after).flatMap(([labels, value]) =>
      value > (before[labels] ?? 0) && labels.includes('createChatCompletion') ? [labels] : [],
    )
    expect(new Set(added.map((labels) => /status="(\d+)"/.exec(labels)?.[1]))).toEqual(new Set(['200', '400', '402']))
  })

  it('has one request id in its answer, its job and the log', async () => {
    const { state, answer } = send(await sign())
    await answer
    const jobs = await sandbox.sql('SELECT count(*)::int AS jobs FROM jobs WHERE request_id = $1', [state.requestId])
    expect(jobs).toEqual([{ jobs: 1 }])
    const refused = await client.call('chat', { ...CHAT, max_tokens: -1 })
    const { request_id: requestId } = refused.structuredContent as { request_id: string }
    const log = join(sandbox.directory, 'logs', 'api.log')
    await until(async () => (await readFile(log, 'utf8')).includes(requestId))
    const lines = (await readFile(log, 'utf8')).split('\n').filter((line) => line.includes(requestId))
    expect(lines.map((line) => (JSON.parse(line) as { route: string }).route)).toEqual(['/mcp'])
  })
})

describe('the allowance of a network', () => {
  it('is shared by the endpoints and the tools: used up at one, it is used up at the other', async () => {
    const signed = await sign()
    await until(async () => {
      const { status } = await sandbox.post('/v1/chat/completions', CHAT)
      return status === 429
    })
    // A known payer paid from here, so the body is read, and what it asks for decides.
    await until(async () => {
      const answers = await Promise.all(Array.from({ length: PER_MINUTE }, list))
      return answers.some(({ status }) => status === 429)
    })
    const refusedBefore = await refusedChats()
    await until(async () => {
      const unpaid = await Promise.all(Array.from({ length: PER_MINUTE }, () => client.call('chat', CHAT)))
      const refused = unpaid.find(({ meta }) => meta['farebox/retry-after-seconds'] !== undefined)
      if (!refused) return false
      expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: 'rate_limited' } } })
      return true
    })
    await until(async () => (await refusedChats()) > refusedBefore)
    // A signed call of a known payer draws on another allowance.
    const paid = await client.call('chat', CHAT, signed)
    expect(paid.meta['x402/payment-response']).toMatchObject({ success: true })
  })
})
