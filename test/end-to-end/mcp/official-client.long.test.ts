import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { x402Client } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { INSTRUCTIONS, TOOL_TEXTS } from '../../../client/mcp/description/tool-texts.ts'
import {
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../support/mcp/local-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

/** The first revision and what the client negotiates in it, or the second one alone. */
const protocolOf = (era: (typeof ERAS)[number]) => expect.stringMatching(era === '2025' ? /^2025-/ : /^2026-07-28$/)

describe.each(ERAS)('the official client over stdio, in the protocol of %s', (era) => {
  let wallet: ServerWallet
  let server: LocalServer
  beforeAll(async () => {
    wallet = await createServerWallet(sandbox)
    server = await startLocalServer(wallet, { era })
  })
  afterAll(async () => {
    await server.close()
    await wallet.remove()
  })

  test('negotiates the revision, and gets instructions, tools with their annotations, and the models', async () => {
    expect(server.client.getNegotiatedProtocolVersion()).toEqual(protocolOf(era))
    expect(server.client.getInstructions()).toBe(INSTRUCTIONS)
    const { tools } = await server.client.listTools()
    expect(tools.map(({ name, title, annotations }) => ({ name, title, annotations }))).toEqual(
      Object.values(TOOL_TEXTS).map(({ name, title, annotations }) => ({ name, title, annotations })),
    )
    const { resources } = await server.client.listResources()
    expect(resources).toHaveLength(1)
    const { contents } = await server.client.readResource({ uri: resources[0]?.uri ?? '' })
    expect(JSON.stringify(contents)).toContain('speechvendor/scribe-v2')
  })

  test('pays for a call once, whose result fits the listed schema, and gets equal bytes for a repetition', async () => {
    await server.client.listTools()
    const given = { prompt: 'Say hello.', max_tokens: 20, request_id: `hello-${era}` }
    const first = await server.call('chat', given)
    const paid = await wallet.paid()
    expect(paid).toBeGreaterThan(0n)
    const again = await server.call('chat', given)
    expect(again.structuredContent).toEqual(first.structuredContent)
    expect(again.content).toEqual(first.content)
    expect(await wallet.paid()).toBe(paid)
  })

  test('gets an error of a tool as a result, and one of the protocol for an unknown tool', async () => {
    await server.client.listTools()
    expect(await server.call('chat', { prompt: '' })).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'invalid_arguments', money: 'none' } },
    })
    await expect(server.call('buy_everything')).rejects.toThrow(/buy_everything/)
  })
})

describe.each(ERAS)('the official client over HTTP, in the protocol of %s', (era) => {
  let client: Client
  beforeAll(async () => {
    const negotiation = era === '2025' ? {} : { versionNegotiation: { mode: { pin: era } } as const }
    client = new Client({ name: 'test', version: '1' }, negotiation)
    await client.connect(new StreamableHTTPClientTransport(new URL(`${sandbox.info.baseUrl}/mcp`)))
  })
  afterAll(() => client.close())

  const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
  const call = async (name: string, args: object, meta: Record<string, unknown> = {}) =>
    await client.callTool({ name, arguments: { ...args }, _meta: meta })

  test('negotiates the revision, and lists the tools with the instructions', async () => {
    expect(client.getNegotiatedProtocolVersion()).toEqual(protocolOf(era))
    expect(client.getInstructions()).toContain('x402')
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(['quote', 'chat', 'generate_image', 'speak', 'transcribe'])
  })

  test('asks for a price, gets the challenge as a result, pays, and gets the same result for a repetition', async () => {
    await client.listTools()
    const quote = await call('quote', { tool: 'chat', arguments: chat })
    expect(quote).not.toHaveProperty('isError')
    const unpaid = await call('chat', chat)
    expect(unpaid).toMatchObject({ isError: true, structuredContent: { x402Version: 2 } })

    const { rpcUrl, network, payer: account, payTo } = sandbox.info
    const scheme = new UptoEvmScheme(privateKeyToAccount(account.privateKey), { rpcUrl })
    const payer = new x402Client().register(network as `${string}:${string}`, scheme)
    const payment = await payer.createPaymentPayload(unpaid.structuredContent as PaymentRequired)
    const transfers = async () => (await sandbox.chain.transfersTo(payTo)).length
    const before = await transfers()
    const paid = await call('chat', chat, { 'x402/payment': payment })
    expect(paid).not.toHaveProperty('isError')
    const again = await call('chat', chat, { 'x402/payment': payment })
    expect(again.structuredContent).toEqual(paid.structuredContent)
    expect(await transfers()).toBe(before + 1)
  })

  test('gets an error of a tool as a result, and one of the protocol for an unknown tool', async () => {
    await client.listTools()
    expect(await call('chat', { model: 'no-such-model' })).toMatchObject({
      isError: true,
      structuredContent: { error: { payment: 'none' } },
    })
    await expect(call('buy_everything', {})).rejects.toThrow(/buy_everything/)
  })
})
