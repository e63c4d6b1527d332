import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createX402McpClient, type X402McpClient } from '../../../support/mcp/x402-mcp-client.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { until } from '../../../support/until.ts'

const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
/** Longer bodies are parsed outside of the event loop. */
const LONG = 300_000

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
const message = (method: string, params: object = {}) => ({ jsonrpc: '2.0', id: 7, method, params })

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
