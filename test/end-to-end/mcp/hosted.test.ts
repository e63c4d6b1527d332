import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operationById } from '#shared/operations/registry.ts'
import { PAID_TOOL_NAMES, TOOL_OPERATIONS } from '../../../api/schemas/tool-operations.ts'
import {
  createX402McpClient,
  findPaymentRequired,
  type ToolResult,
  type X402McpClient,
} from '../../support/mcp/x402-mcp-client.ts'
import { generateFrames, generateMp3 } from '../../support/media/mp3-generator.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
/** Longer bodies are parsed outside of the event loop. */
const LONG = 300_000
const message = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 7, method, params })
const CHAT_PATH = '/v1/chat/completions'
const KEY = 'farebox/idempotency-key'
const PAYMENT = 'x402/payment'
/** What must be equal on every repetition. */
const stable = ({ content, structuredContent, isError }: ToolResult) =>
  JSON.stringify({ content, structuredContent, isError })
const errorOf = (result: ToolResult) => {
  expect(result.isError).toBe(true)
  return (result.structuredContent as { error: Record<string, unknown> }).error
}

describe('the protocol of the hosted server', () => {
  let sandbox: SharedSandbox
  let url: string
  let caller: X402McpClient
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    const { baseUrl, rpcUrl, network, payer } = sandbox.info
    url = `${baseUrl}/mcp`
    caller = createX402McpClient({ url, privateKey: payer.privateKey, rpcUrl, network })
  })

  afterAll(() => sandbox.stop())

  const post = (body: unknown, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  describe('the official client', () => {
    it.each([
      ['of 2025', 'legacy'],
      ['of 2026', { pin: '2026-07-28' }],
    ] as const)('%s lists the tools with schemas, and calls them', async (_, mode) => {
      const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
      await client.connect(new StreamableHTTPClientTransport(new URL(url)))
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual(['quote', 'chat', 'generate_image', 'speak', 'transcribe'])
      for (const { inputSchema, outputSchema, annotations, description = '' } of tools) {
        expect([inputSchema.type, outputSchema?.['type']]).toEqual(['object', 'object'])
        expect(annotations).toMatchObject({ idempotentHint: true })
        expect(description).not.toBe('')
      }
      const quoted = await client.callTool({ name: 'quote', arguments: { tool: 'chat', arguments: CHAT } })
      expect(quoted.structuredContent).toMatchObject({ object: 'quote', operation: 'createChatCompletion' })
      const unpaid = await client.callTool({ name: 'chat', arguments: CHAT })
      expect(unpaid).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } })
      await client.close()
    })
  })

  describe('a message', () => {
    it('that is no JSON is refused as the protocol does, with a request id', async () => {
      const answer = await post('{"jsonrpc":')
      expect(answer.status).toBe(400)
      const requestId = answer.headers.get('x-request-id')
      expect(await answer.json()).toMatchObject({
        jsonrpc: '2.0',
        id: null,
        error: { code: -32_700, data: { code: 'invalid_json', payment: 'none', request_id: requestId } },
      })
    })

    it('may not be a batch, so that one request is one call', async () => {
      const answer = await post([message('tools/list'), message('tools/list')])
      expect(answer.status).toBe(400)
      expect(await answer.json()).toMatchObject({ id: null, error: { code: -32_600 } })
    })

    it('with an unknown tool is an error of the protocol, which quotes only the beginning of a long name', async () => {
      const answer = await post(message('tools/call', { name: 'x'.repeat(10_000), arguments: {} }))
      expect(await answer.json()).toMatchObject({ id: 7, error: { code: -32_602 } })
      expect(Number(answer.headers.get('content-length'))).toBeLessThan(1000)
    })

    it.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])(
      'of revision %s that is not paid for gets the challenge in both forms of the x402 page, identical',
      async (version) => {
        const meta = {
          'io.modelcontextprotocol/protocolVersion': version,
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          // A binding that this server does not have: the page then has it answer with the tool-result binding.
          'io.modelcontextprotocol/clientCapabilities': { extensions: { 'org.x402/payment': {} } },
        }
        const isModern = version >= '2026'
        const params = { name: 'chat', arguments: CHAT, ...(isModern && { _meta: meta }) }
        const headers = { 'mcp-protocol-version': version, 'mcp-method': 'tools/call', 'mcp-name': 'chat' }
        const answer = await post(message('tools/call', params), headers)
        const { result } = (await answer.json()) as { result: ToolResult & { readonly resultType?: string } }
        expect(findPaymentRequired(result)).toMatchObject({ x402Version: 2, accepts: [{ scheme: 'upto' }] })
        expect(result.content).toHaveLength(1)
        expect(result.resultType).toBe(isModern ? 'complete' : undefined)
      },
    )

    it('that is a notification is taken without an answer', async () => {
      const answer = await post({ jsonrpc: '2.0', method: 'notifications/initialized' })
      expect([answer.status, await answer.text()]).toEqual([202, ''])
    })

    it('cannot open a subscription, which would hold a connection for nothing', async () => {
      const meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      }
      const params = { _meta: meta, notifications: { toolsListChanged: true } }
      const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' }
      const answer = await post(message('subscriptions/listen', params), headers)
      expect(await answer.json()).toMatchObject({ error: { message: 'Subscription limit reached' } })
    })

    it('is never cached', async () => {
      expect((await post(message('ping'))).headers.get('cache-control')).toBe('no-store')
    })

    it.each(['GET', 'DELETE', 'PUT'])('cannot be sent with %s', async (method) => {
      const answer = await fetch(url, { method })
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST'])
      expect(await answer.json()).toMatchObject({ error: { code: 'method_not_allowed' } })
    })

    it('may come from a page in a browser', async () => {
      const answer = await fetch(url, {
        method: 'OPTIONS',
        headers: { origin: 'https://agent.example', 'access-control-request-method': 'POST' },
      })
      expect(answer.headers.get('access-control-allow-headers')).toContain('Mcp-Protocol-Version')
    })
  })

  describe('long arguments', () => {
    it('of a chat have the price of the endpoint', async () => {
      const long = { ...CHAT, messages: [{ role: 'user', content: 'so '.repeat(LONG / 3) }] }
      const endpoint = await sandbox.post('/v1/chat/completions', long)
      const { accepts } = (await endpoint.json()) as { accepts: { amount: string }[] }
      const tool = await caller.call('chat', long)
      expect(tool.structuredContent).toMatchObject({ accepts: [{ amount: accepts[0]?.amount }] })
    })

    it('with a recording are the same request as at the endpoint', async () => {
      const recording = Buffer.from(generateMp3({ durationMs: 20_000 }))
      expect(recording.length).toBeGreaterThan(LONG)
      const body = { model: 'speechvendor/scribe-v2', audio_base64: recording.toString('base64') }
      const { structuredContent, meta } = await caller.call('transcribe', body)
      expect(structuredContent).toMatchObject({ x402Version: 2 })
      // Another request would be refused under its key.
      const same = await sandbox.transcribe({ body, idempotencyKey: String(meta['farebox/idempotency-key']) })
      expect(same.status).toBe(402)
      const quoted = await caller.call('quote', { tool: 'transcribe', arguments: body })
      expect(quoted.structuredContent).toMatchObject({ audio: { bytes: recording.length, is_inspected: true } })
    })

    it('are refused for the reasons of the endpoint', async () => {
      const wrong = { model: 'speechvendor/scribe-v2', audio_base64: `${'A'.repeat(LONG)}!` }
      const { error } = (await (await sandbox.transcribe({ body: wrong })).json()) as { error: object }
      expect((await caller.call('transcribe', wrong)).structuredContent).toMatchObject({ error })
      const short = { ...wrong, audio_base64: Buffer.from(generateFrames(3)).toString('base64') }
      for (const [tool, body] of [
        ['transcribe', short] as const,
        ['quote', { tool: 'transcribe', arguments: short }] as const,
      ])
        expect((await caller.call(tool, body)).structuredContent).toMatchObject({ error: { code: 'audio_too_short' } })
    })

    it('are all that may be long in a message', async () => {
      const answer = await post(
        message('tools/call', { name: 'chat', arguments: CHAT, _meta: { note: 'x'.repeat(LONG) } }),
      )
      expect(answer.status).toBe(413)
    })
  })

  const logs = async () => {
    const directory = join(sandbox.directory, 'logs')
    const files = await readdir(directory)
    return (await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')))).join('\n')
  }
  describe('a private key', () => {
    const secret = `0x${'c0ffee'.repeat(10)}beef`
    it.each([
      ['_meta by name', CHAT, { private_key: secret }, {}],
      ['_meta by value, at any depth', CHAT, { auth: { credentials: [secret] } }, {}],
      ['a payment by name', CHAT, { 'x402/payment': { payload: { privateKey: secret } } }, {}],
      ['the arguments', { ...CHAT, wallet_key: secret }, {}, {}],
      ['a header', CHAT, {}, { 'x-wallet-private-key': secret }],
    ])('in %s is refused, unquoted and unlogged', async (_, args, meta, headers) => {
      const answer = await post(message('tools/call', { name: 'chat', arguments: args, _meta: meta }), headers)
      const text = await answer.text()
      expect(JSON.parse(text)).toMatchObject({
        result: { isError: true, structuredContent: { error: { code: 'invalid_field', payment: 'none' } } },
      })
      expect(text).toContain('This service never needs one')
      expect(text).not.toContain(secret)
      await until(async () => (await logs()).includes(String(answer.headers.get('x-request-id'))))
      expect(await logs()).not.toContain(secret)
    })

    it('is not seen where a prompt mentions a hash of the same length', async () => {
      const args = { ...CHAT, messages: [{ role: 'user', content: secret }] }
      expect((await caller.call('chat', args)).structuredContent).toMatchObject({ x402Version: 2 })
    })
  })
})

describe('paid tools of the hosted server', () => {
  let sandbox: SharedSandbox
  let client: X402McpClient
  /** As the page's own example: its client sees the text only, and its payments have no extensions. */
  let plainClient: X402McpClient
  let structuredClient: X402McpClient
  /** Has approved Permit2, so that its calls may overlap. */
  let payer: Payer
  let argumentsOf: Readonly<Record<string, object>>
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    const { baseUrl, rpcUrl, network, payer: own } = sandbox.info
    const options = { url: `${baseUrl}/mcp`, privateKey: own.privateKey, rpcUrl, network }
    client = createX402McpClient(options)
    structuredClient = createX402McpClient({ ...options, reads: 'structuredContent' })
    payer = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
    const { privateKey } = payer
    plainClient = createX402McpClient({ ...options, privateKey, reads: 'text', sendsExtensions: false })
    argumentsOf = {
      chat: CHAT,
      generate_image: operationById(TOOL_OPERATIONS.generate_image).requestExample,
      speak: operationById(TOOL_OPERATIONS.speak).requestExample,
      transcribe: { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') },
    }
  })

  afterAll(() => sandbox.stop())

  const count = async () => ({
    transfers: (await sandbox.chain.transfersTo(sandbox.info.payTo)).length,
    upstreamCalls: (await sandbox.upstreamCalls()).length,
  })
  /** Calls without paying, signs the challenge and returns what the call is repeated with. */
  async function sign(args: object = CHAT, key: string = randomUUID()): Promise<Record<string, unknown>> {
    const meta = { [KEY]: key }
    const challenge = (await client.call('chat', args, meta)).structuredContent
    return { ...meta, [PAYMENT]: await signCustomPayment(challenge as never, payer) }
  }
  describe('a client of the x402 page with the official signer', () => {
    it.each([
      ...PAID_TOOL_NAMES.map((tool) => [tool, 'text', () => plainClient] as const),
      ['chat', 'structuredContent', () => structuredClient] as const,
      ['chat', 'both', () => client] as const,
    ])('pays for %s in two calls, reading %s, once, with settlement and receipt', async (tool, _, clientOf) => {
      const before = await count()
      const { result, settlement, calls } = await clientOf().pay(tool, argumentsOf[tool] ?? {})
      expect(result.isError).toBeUndefined()
      expect(result.content.length).toBeGreaterThan(1)
      expect(calls).toBe(2)
      const { address } = clientOf() === plainClient ? payer : sandbox.info.payer
      expect(settlement).toMatchObject({ success: true, payer: address.toLowerCase() })
      expect(await count()).toEqual({ transfers: before.transfers + 1, upstreamCalls: before.upstreamCalls + 1 })
      const { id, token } = result.meta['farebox/receipt'] as { id: string; token: string }
      const receipt = await fetch(`${sandbox.info.baseUrl}/v1/receipts/${id}`, {
        headers: { authorization: `Bearer ${token}` },
      })
      expect(await receipt.json()).toMatchObject({ id, transaction: settlement?.transaction })
    })

    it('repeats a paid call that lost its answer, which is charged once and equal in content', async () => {
      const before = await count()
      const { result, payment } = await client.pay('chat', CHAT)
      const repeated = await Promise.all(
        Array.from({ length: 10 }, () => client.call('chat', CHAT, { [PAYMENT]: payment })),
      )
      expect(new Set([result, ...repeated].map(stable)).size).toBe(1)
      expect(repeated.map(({ meta }) => meta['farebox/receipt'])).toEqual(
        repeated.map(() => result.meta['farebox/receipt']),
      )
      expect(await count()).toEqual({ transfers: before.transfers + 1, upstreamCalls: before.upstreamCalls + 1 })
    })
  })

  describe('the key of a tool call', () => {
    it('is new in each challenge of calls without one, and named in _meta and payment-identifier', async () => {
      const challenges = [await client.call('chat', CHAT), await client.call('chat', CHAT)]
      const keys = challenges.map(({ meta, structuredContent }) => {
        const { extensions } = structuredContent as { extensions: Record<string, { info: { id: string } }> }
        expect(extensions['payment-identifier']?.info.id).toBe(meta[KEY])
        return meta[KEY]
      })
      expect(new Set(keys).size).toBe(2)
    })

    it('makes a repetition with the same arguments the same call, signed again or not', async () => {
      const before = await count()
      const key = randomUUID()
      const results = [
        await client.call('chat', CHAT, await sign(CHAT, key)),
        await client.call('chat', CHAT, await sign(CHAT, key)),
      ]
      expect(new Set(results.map(stable)).size).toBe(1)
      expect((await count()).transfers).toBe(before.transfers + 1)
    })

    it('is refused with other arguments (409), paid or not, and nothing is charged', async () => {
      const signed = await sign()
      const before = await count()
      const other = { ...CHAT, max_tokens: 41 }
      expect(errorOf(await client.call('chat', other, signed))).toMatchObject({
        code: 'idempotency_key_reused',
        payment: 'none',
        param: `_meta["${KEY}"]`,
      })
      const unpaid = await client.call('chat', other, { [KEY]: signed[KEY] })
      expect(errorOf(unpaid)).toMatchObject({ code: 'idempotency_key_reused' })
      expect(await count()).toEqual(before)
    })

    it('is refused with a payment that was signed for another call (409)', async () => {
      const { [PAYMENT]: payment } = await sign()
      const other = { ...CHAT, max_tokens: 42 }
      const { [KEY]: key } = await sign(other)
      const before = await count()
      const refused = await client.call('chat', other, { [KEY]: key, [PAYMENT]: payment })
      expect(errorOf(refused)).toMatchObject({ code: 'challenge_mismatch', payment: 'none' })
      expect(await count()).toEqual(before)
    })

    it('is that of the challenge for a payment without extensions, which is charged once however often it comes', async () => {
      const before = await count()
      const { result, payment } = await plainClient.pay('chat', CHAT)
      expect(payment).not.toHaveProperty('extensions')
      const repeated = await Promise.all(
        Array.from({ length: 10 }, () => client.call('chat', CHAT, { [PAYMENT]: payment })),
      )
      expect(new Set([result, ...repeated].map(stable)).size).toBe(1)
      const other = await client.call('chat', { ...CHAT, max_tokens: 41 }, { [PAYMENT]: payment })
      expect(errorOf(other)).toMatchObject({ code: 'idempotency_key_reused', payment: 'none' })
      expect(await count()).toEqual({ transfers: before.transfers + 1, upstreamCalls: before.upstreamCalls + 1 })
    })

    it('of a payment without extensions opens its result to no other signature', async () => {
      const { payment } = await plainClient.pay('chat', CHAT)
      const before = await count()
      const forged = structuredClone(payment) as unknown as { payload: { signature: string }; accepted: object }
      forged.payload.signature = `0x${'11'.repeat(64)}1b`
      const { accepted } = structuredClone(payment) as unknown as { accepted: { extra: Record<string, unknown> } }
      const ofStranger = await client.sign({ ...payment, accepts: [accepted] } as never)
      const { challenge: _, ...extra } = accepted.extra
      const withoutToken = { ...payment, accepted: { ...accepted, extra } }
      const answers = [forged, ofStranger, withoutToken].map((given) => client.call('chat', CHAT, { [PAYMENT]: given }))
      for (const { isError, structuredContent } of await Promise.all(answers)) {
        expect(isError).toBe(true)
        expect(structuredContent).not.toHaveProperty('choices')
      }
      expect(await count()).toEqual(before)
    })

    it.each([
      ['no key', {}],
      ['a key', { [KEY]: randomUUID() }],
    ])('is not what a payment with %s that is none is refused for', async (_, meta) => {
      const before = await count()
      for (const garbage of [{}, 'garbage', null, { x402Version: 2, payload: {} }]) {
        const refused = await client.call('chat', CHAT, { ...meta, [PAYMENT]: garbage })
        expect(findPaymentRequired(refused)).toMatchObject({ error: 'invalid_payment_header' })
        expect(refused.meta['farebox/refusal']).toMatchObject({ code: 'invalid_payment_header', payment: 'none' })
      }
      expect(await count()).toEqual(before)
    })

    it('must not differ between _meta and the payment', async () => {
      const { payment } = await client.pay('chat', CHAT)
      const refused = await client.call('chat', CHAT, { [KEY]: randomUUID(), [PAYMENT]: payment })
      expect(errorOf(refused)).toMatchObject({ code: 'idempotency_key_conflict', payment: 'none' })
    })
  })

  describe('a tool call and the request to its endpoint', () => {
    it('are the same call: paid as a tool, it is replayed at the endpoint with the same result', async () => {
      const signed = await sign()
      const result = await client.call('chat', CHAT, signed)
      const before = await count()
      const replayed = await sandbox.post(CHAT_PATH, CHAT, {
        idempotencyKey: String(signed[KEY]),
        headers: paymentHeader(signed[PAYMENT]),
      })
      expect(await replayed.json()).toEqual(result.structuredContent)
      expect(replayed.headers.get('x-receipt-id')).toBe((result.meta['farebox/receipt'] as { id: string }).id)
      expect(await count()).toEqual(before)
    })

    it('have the same challenge: one of the endpoint is paid as a tool', async () => {
      const key = randomUUID()
      const payment = await signCustomPayment(
        challengeOf(await sandbox.post(CHAT_PATH, CHAT, { idempotencyKey: key })),
        payer,
      )
      const result = await client.call('chat', CHAT, { [KEY]: key, [PAYMENT]: payment })
      expect(result.meta['x402/payment-response']).toMatchObject({ success: true })
    })

    it('have the same price, which the quote tool returns free of charge', async () => {
      const quoted = await client.call('quote', { tool: 'chat', arguments: CHAT })
      const request = { operation: 'createChatCompletion', request: CHAT }
      expect(quoted.structuredContent).toEqual(await (await sandbox.post('/v1/quotes', request)).json())
      const { quoted_maximum_atomic: maximum } = quoted.structuredContent ?? {}
      const challenge = (await client.call('chat', CHAT)).structuredContent
      expect(challenge).toMatchObject({ accepts: [{ amount: maximum }] })
    })

    it.each([
      { ...CHAT, max_tokens: -1 },
      { ...CHAT, n: 2 },
    ])('are refused for the same reasons, in the terms of each: %j', async (wrong) => {
      const { error } = (await (await sandbox.post(CHAT_PATH, wrong)).json()) as { error: object }
      expect(errorOf(await client.call('chat', wrong))).toEqual(error)
    })

    it('with a refused payment get the challenge again, with the reason and that no money moved', async () => {
      const signed = await sign()
      const payment = structuredClone(signed[PAYMENT]) as { payload: { signature: string } }
      payment.payload.signature = `0x${'11'.repeat(64)}1b`
      const refused = await client.call('chat', CHAT, { ...signed, [PAYMENT]: payment })
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { x402Version: 2, error: 'payment_signature_invalid', accepts: [{ scheme: 'upto' }] },
        meta: { 'farebox/refusal': { code: 'payment_signature_invalid', payment: 'none', retry: 'new_payment' } },
      })
    })
  })
})
