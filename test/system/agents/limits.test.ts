import { randomUUID } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import type { CallToolResult, ElicitResult } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../client/farebox.ts'
import { writeLimits } from '../../../client/mcp/limits/change-limits.ts'
import { DEFAULT_LIMITS, limitsPath, type SpendingLimits } from '../../../client/mcp/limits/limits-file.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { samplesOf, scrape } from '../../support/http/scrape.ts'
import {
  type ClientSettings,
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../support/mcp/local-server.ts'
import { createX402McpClient, type X402McpClient } from '../../support/mcp/x402-mcp-client.ts'
import { signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import {
  type SharedSandbox,
  startTestSandbox,
  type TestSandbox,
  useSharedSandbox,
} from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const servers: LocalServer[] = []
const prompt = (text: string) => ({ prompt: `Say ${text}.`, max_tokens: 20 })
interface ToolError {
  readonly code: string
  readonly advice: string
  readonly money: string
}
const errorOf = ({ isError, structuredContent }: CallToolResult) =>
  isError === true ? (structuredContent as { readonly error: ToolError }).error : null
const priceOf = async (server: LocalServer) => {
  const { structuredContent } = await server.call('chat', prompt('a price'))
  const { payment } = structuredContent as { readonly payment: { readonly price_usdc: string } }
  return parseUsdc(payment.price_usdc)
}
function usdc(atomic: bigint): string {
  return `${atomic / 1_000_000n}.${(atomic % 1_000_000n).toString().padStart(6, '0')}`
}
const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const KEY = 'farebox/idempotency-key'
const PAYMENT = 'x402/payment'
const HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'chat', arguments: CHAT } }
const long = { ...CHAT, messages: [{ role: 'user', content: 'x'.repeat(300_000) }] }
const REQUESTS: readonly { readonly title: string; readonly body: string; readonly headers?: object }[] = [
  { title: 'a body that cannot be parsed', body: '{"jsonrpc":' },
  { title: 'a long body that cannot be parsed', body: `{"jsonrpc":"${'x'.repeat(300_000)}` },
  { title: 'a batch', body: JSON.stringify([call]) },
  { title: 'a text', body: '"x"' },
  { title: 'an empty body', body: '' },
  { title: 'a call without an id', body: JSON.stringify({ ...call, id: undefined }) },
  {
    title: 'a long call without an id',
    body: JSON.stringify({ ...call, id: undefined, params: { name: 'chat', arguments: long } }),
  },
  { title: 'a call of another version of JSON-RPC', body: JSON.stringify({ ...call, jsonrpc: '1.0' }) },
  { title: 'a call that accepts no answer', body: JSON.stringify(call), headers: { accept: 'image/png' } },
  {
    title: 'a call of an unknown revision',
    body: JSON.stringify(call),
    headers: { 'mcp-protocol-version': '1999-01-01' },
  },
  { title: 'a list of the tools', body: JSON.stringify({ ...call, method: 'tools/list' }) },
]

describe('limits of a local server', () => {
  let sandbox: SharedSandbox
  let wallet: ServerWallet
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  beforeEach(async () => {
    wallet = await createServerWallet(sandbox)
  })

  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close()
    await wallet.remove()
  })

  afterAll(() => sandbox.stop())

  async function start(settings: ClientSettings = {}): Promise<LocalServer> {
    const server = await startLocalServer(wallet, settings)
    servers.push(server)
    return server
  }
  const setLimits = (limits: Partial<SpendingLimits>) =>
    writeLimits(limitsPath(wallet.home), { ...DEFAULT_LIMITS, ...limits })
  describe('limits over the service', () => {
    it('200 parallel calls of two servers stay within the limits of session, day and tool together', async () => {
      const price = await priceOf(await start())
      const before = await wallet.paid()
      const used = before
      // Ten more calls in each session, seventeen in the day, of which five are those of chat.
      await setLimits({
        session: usdc(price * 10n),
        day: usdc(used + price * 17n),
        tools: { chat: { day: usdc(used + price * 5n) } },
      })
      const both = [await start(), await start()]
      const results = await Promise.all(
        Array.from({ length: 200 }, async (_, index) => {
          const server = both[index % 2] as LocalServer
          const name = index % 4 < 2 ? 'chat' : 'speak'
          return {
            name,
            server: index % 2,
            result: await server.call(
              name,
              name === 'chat' ? prompt(`${index}`) : { text: `Say ${index}.`, voice: 'talia' },
            ),
          }
        }),
      )
      const paid = results.filter(({ result }) => errorOf(result) === null)
      const refused = results.flatMap(({ result }) => errorOf(result) ?? [])
      expect(paid.length).toBeGreaterThan(0)
      expect(refused.length).toBeGreaterThan(100)
      expect(new Set(refused.map(({ code, money }) => `${code} ${money}`))).toEqual(new Set(['budget_exceeded none']))
      expect(refused.every(({ advice }) => advice.includes('farebox limits set '))).toBe(true)
      const charged = (those: typeof paid) =>
        those.reduce((sum, { result }) => {
          const { payment } = result.structuredContent as { readonly payment: { readonly charge_usdc: string } }
          return sum + parseUsdc(payment.charge_usdc)
        }, 0n)
      for (const index of [0, 1])
        expect(charged(paid.filter(({ server }) => server === index))).toBeLessThanOrEqual(price * 10n)
      expect(charged(paid.filter(({ name }) => name === 'chat'))).toBeLessThanOrEqual(price * 5n)
      expect(charged(paid)).toBe((await wallet.paid()) - before)
      expect(charged(paid)).toBeLessThanOrEqual(price * 17n)
    })

    it('a change holds at once for a server that runs, and an unusable file stops all payments', async () => {
      const server = await start()
      expect(errorOf(await server.call('chat', prompt('one')))).toBeNull()
      await setLimits({ tools: { chat: { call: '0.000001' } } })
      expect(errorOf(await server.call('chat', prompt('two')))).toMatchObject({
        code: 'budget_exceeded',
        money: 'none',
        advice: expect.stringMatching(/farebox limits set --tool chat --call 0\.\d+ --home \S+home$/) as string,
      })
      await setLimits({})
      expect(errorOf(await server.call('chat', prompt('two')))).toBeNull()
      await chmod(limitsPath(wallet.home), 0o644)
      const before = await wallet.paid()
      expect(errorOf(await server.call('chat', prompt('three')))).toMatchObject({
        code: 'limits_unusable',
        money: 'none',
      })
      await chmod(limitsPath(wallet.home), 0o600)
      expect(await wallet.paid()).toBe(before)
      expect(errorOf(await server.call('chat', prompt('three')))).toBeNull()
    })
  })

  describe.each(ERAS)('a call above confirm_above, with a client of %s', (era) => {
    const asked: unknown[] = []
    beforeEach(async () => {
      asked.splice(0)
      await setLimits({ confirmAbove: '0.000001' })
    })

    const startAnswering = async (answer: ElicitResult) => {
      const server = await start({ era, client: { capabilities: { elicitation: { form: {} } } } })
      server.client.setRequestHandler('elicitation/create', ({ params }) => {
        asked.push(params)
        return answer
      })
      return server
    }

    it('is paid for once when the person agrees, and its repetition asks nobody', async () => {
      const server = await startAnswering({ action: 'accept', content: { agree: true } })
      const first = await server.call('chat', prompt('hello'))
      expect(errorOf(first)).toBeNull()
      const once = await wallet.paid()
      expect(await server.call('chat', prompt('hello'))).toMatchObject({ content: first.content })
      expect([asked.length, await wallet.paid()]).toEqual([1, once])
      await server.call('chat', prompt('something else'))
      expect(asked).toHaveLength(2)
    })

    it('is not paid for when the person declines', async () => {
      const server = await startAnswering({ action: 'decline' })
      expect(errorOf(await server.call('chat', prompt('hello')))).toMatchObject({
        code: 'confirmation_declined',
        money: 'none',
      })
      expect(await wallet.paid()).toBe(0n)
    })

    it('is not paid for by a client that cannot ask, and says what the person runs', async () => {
      const server = await start({ era })
      const refused = errorOf(await server.call('chat', prompt('hello')))
      expect(refused).toMatchObject({ code: 'confirmation_required', money: 'none' })
      const [command = '', amount = ''] = /farebox limits set --confirm-above (\S+)/.exec(refused?.advice ?? '') ?? []
      expect(command).not.toBe('')
      await setLimits({ confirmAbove: amount })
      expect(errorOf(await server.call('chat', prompt('hello')))).toBeNull()
    })
  })
})

describe('limits of the hosted server', () => {
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
  /** Sends a signed call. */
  function send(meta: object) {
    const body = JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'chat', arguments: CHAT, _meta: meta },
    })
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
    const sent = request(`${sandbox.info.baseUrl}/mcp`, { method: 'POST', headers })
    const state = { requestId: '', destroy: () => sent.destroy() }
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
    it('is held until the result', async () => {
      const signed = await sign()
      vendors.hold()
      const { answer } = send(signed)
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
})

describe('a message that runs no tool', () => {
  const PER_MINUTE = 5
  let sandbox: TestSandbox
  beforeAll(async () => {
    sandbox = await startTestSandbox({ apiEnvironment: { REQUESTS_PER_MINUTE: String(PER_MINUTE) } })
  })
  afterAll(() => sandbox.stop())
  /** Sends a message from an address of its own, and returns the status of the answer. */
  async function send(localAddress: string, body: string, headers: object): Promise<number | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
    const sent = request(`${sandbox.info.baseUrl}/mcp`, {
      method: 'POST',
      localAddress,
      headers: { ...HEADERS, ...headers },
    })
    sent.on('error', reject)
    sent.on('response', (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
    })
    sent.end(body)
    return await promise
  }

  it.each(REQUESTS)('draws on the allowance of its network: $title', async ({ title, body, headers = {} }) => {
    const address = `127.0.0.${10 + REQUESTS.findIndex((known) => known.title === title)}`
    const statuses: (number | undefined)[] = []
    while (statuses.length < 10 * PER_MINUTE && statuses.at(-1) !== 429)
      statuses.push(await send(address, body, headers))
    expect(statuses.at(-1)).toBe(429)
  })
})
