import type { CallToolResult } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../../client/farebox.ts'
import {
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../../support/mcp/local-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let wallet: ServerWallet
let server: LocalServer
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  wallet = await createServerWallet(sandbox)
  server = await startLocalServer(wallet)
})
afterAll(async () => {
  await server.close()
  await wallet.remove()
  await sandbox.stop()
})

/** The part of a result that must not change between repetitions. */
function bytes({ content, structuredContent }: CallToolResult): string {
  return JSON.stringify({ content, structuredContent })
}

function isReplayed({ _meta: meta }: CallToolResult): unknown {
  return meta?.['farebox/replayed']
}

interface Payment {
  readonly price_usdc: string
  readonly charge_usdc: string
  readonly receipt_id: string
}

function paymentOf(result: CallToolResult | undefined): Payment {
  const { payment } = Object(result?.structuredContent) as { readonly payment: Payment }
  return payment
}

describe('a paid tool', () => {
  it.each([
    ['chat', { prompt: 'Say hello.', max_tokens: 20 }, ['text', 'text', 'text']],
    ['generate_image', { prompt: 'A cat on a tram' }, ['text', 'resource_link', 'image']],
    ['speak', { text: 'Mind the gap.', voice: 'talia' }, ['text', 'resource_link', 'audio']],
  ])(
    '%s charges once for equal arguments and for a request_id, and returns equal bytes',
    async (name, given, types) => {
      const before = await wallet.paid()
      const first = await server.call(name, given)
      expect(first.content.map(({ type }) => type)).toEqual(types)
      const again = await server.call(name, given)
      const payment = paymentOf(first)
      const charge = parseUsdc(payment.charge_usdc)
      expect(charge).toBeGreaterThan(0n)
      expect(parseUsdc(payment.price_usdc)).toBeGreaterThanOrEqual(charge)
      expect(bytes(again)).toBe(bytes(first))
      expect(await wallet.paid()).toBe(before + charge)
      expect([isReplayed(first), isReplayed(again)]).toEqual([false, true])
      const named = await server.call(name, { ...given, request_id: `${name}-1` })
      expect(paymentOf(named).receipt_id).not.toBe(payment.receipt_id)
      expect(bytes(await server.call(name, { ...given, request_id: `${name}-1` }))).toBe(bytes(named))
      expect(await wallet.paid()).toBe(before + 2n * charge)
    },
  )

  it('is the same call in another process with the same request_id, without another charge', async () => {
    const given = { prompt: 'Name a tram stop.', max_tokens: 20, request_id: 'stop' }
    const first = await server.call('chat', given)
    const paid = await wallet.paid()
    const other = await startLocalServer(wallet)
    const again = await other.call('chat', given)
    await other.close()
    expect(bytes(again)).toBe(bytes(first))
    expect(await wallet.paid()).toBe(paid)
  })

  it('refuses other arguments under a request_id before it asks the service for anything', async () => {
    await server.call('chat', { prompt: 'One.', max_tokens: 20, request_id: 'conflict' })
    const keys = await sandbox.added('idempotency_keys')
    const refused = await server.call('chat', { prompt: 'Two.', max_tokens: 20, request_id: 'conflict' })
    expect(refused).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'request_id_conflict', money: 'none' } },
    })
    expect(await sandbox.added('idempotency_keys')).toBe(keys)
  })

  it('charges fifty equal calls at once as one', async () => {
    const before = await wallet.paid()
    const given = { prompt: 'All at once.', max_tokens: 20 }
    const results = await Promise.all(Array.from({ length: 50 }, () => server.call('chat', given)))
    expect(new Set(results.map(bytes)).size).toBe(1)
    const payment = paymentOf(results[0])
    expect(await wallet.paid()).toBe(before + parseUsdc(payment.charge_usdc))
  })

  it('reports progress that grows while it works', async () => {
    const steps: { progress: number; message?: string | undefined }[] = []
    await server.call('chat', { prompt: 'Slowly.', max_tokens: 20 }, { onprogress: (step) => steps.push(step) })
    expect(steps.map(({ message }) => message)).toEqual(['asking for the price', 'paying'])
    expect(steps.map(({ progress }) => progress)).toEqual([1, 2])
  })
})

describe.each(ERAS)('a client of %s', (era) => {
  it('lists every tool with schemas and annotations, reads the models, and gets a price and an answer', async () => {
    const { client, call, close } = await startLocalServer(wallet, { era })
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(['quote', 'chat', 'generate_image', 'speak']))
    for (const { inputSchema, outputSchema, annotations, description } of tools) {
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: false })
      expect(outputSchema).toMatchObject({ type: 'object' })
      expect(annotations).toMatchObject({ readOnlyHint: expect.any(Boolean), openWorldHint: expect.any(Boolean) })
      expect(description).not.toBe('')
    }
    const { contents } = await client.readResource({ uri: 'farebox://models' })
    const [resource] = contents
    expect(JSON.parse(resource !== undefined && 'text' in resource ? resource.text : '')).toMatchObject({
      models: expect.any(Array),
      prices: expect.any(Array),
    })
    const quoted = await call('quote', { tool: 'chat', text: 'Say hello.', max_tokens: 20 })
    expect(quoted.structuredContent).toMatchObject({ tool: 'chat', charge: 'measured', price_usdc: '0.002' })
    const answered = await call('chat', { prompt: 'Say hello.', max_tokens: 20 })
    expect(answered.structuredContent).toMatchObject({ payment: { charge_usdc: '0.002' } })
    await close()
  })
})
