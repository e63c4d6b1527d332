import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CallToolResult } from '@modelcontextprotocol/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { parseUsdc } from '../../../client/farebox.ts'
import { LARGEST_MESSAGE_BYTES } from '../../../client/mcp/stdio/message-lines.ts'
import {
  createServerWallet,
  ERAS,
  type LocalServer,
  type ServerWallet,
  startLocalServer,
} from '../../support/mcp/local-server.ts'
import { startRawServer } from '../../support/mcp/raw-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

function form({ structuredContent }: CallToolResult): Record<string, unknown> {
  return { ...(structuredContent as Record<string, unknown> | undefined) }
}
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

describe('farebox mcp on standard input and output', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'farebox-stdio-'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })
  const openServer = () => startRawServer({ home: join(folder, 'home') })

  it('answers malformed lines with errors of JSON-RPC, and goes on', async () => {
    const { child, send, request, reply, ended } = await openServer()
    send('{"jsonrpc":"2.0","id":1,')
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_700 } })
    send('[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_600 } })
    send('{"jsonrpc":"2.0","id":2}')
    expect(await reply()).toMatchObject({ id: 2, error: { code: -32_600 } })
    send('x'.repeat(LARGEST_MESSAGE_BYTES + 1))
    expect(await reply()).toMatchObject({ id: null, error: { code: -32_600 } })
    request(3, 'tools/call', { name: 'no_such_tool', arguments: {} })
    expect(await reply()).toMatchObject({ id: 3, error: { code: -32_602 } })
    request(4, 'no/such/method')
    expect(await reply()).toMatchObject({ id: 4, error: { code: -32_601 } })
    request(5, 'ping')
    expect(await reply()).toMatchObject({ id: 5, result: {} })
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it('lists its tools without service and wallet, and answers each call with what a person runs', async () => {
    const { child, request, reply, ended } = await openServer()
    request(1, 'tools/list')
    const { tools } = (await reply()).result as { tools: { name: string }[] }
    expect(tools.length).toBeGreaterThan(3)
    request(2, 'tools/call', { name: 'chat', arguments: { prompt: 'Hello.' } })
    const { result } = await reply()
    expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'no_service', money: 'none' } } })
    expect(JSON.stringify(result)).toContain('farebox mcp --url')
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it('refuses arguments that do not match as an error of the tool, of any size', async () => {
    const { child, request, reply, ended } = await openServer()
    const given = [{}, { prompt: 7 }, { prompt: 'a', limit: '100' }, { prompt: 'x'.repeat(8 * 1024 * 1024) }]
    for (const [index, value] of given.entries()) {
      request(index + 1, 'tools/call', { name: 'chat', arguments: value })
      const { result } = await reply()
      expect(result).toMatchObject({ isError: true, structuredContent: { error: { code: 'invalid_arguments' } } })
      expect(JSON.stringify(result).length).toBeLessThan(4000)
    }
    child.stdin.end()
    expect(await ended).toEqual({ code: 0, signal: null })
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('ends without an error at %s', async (signal) => {
    const { child, ended } = await openServer()
    child.kill(signal)
    expect(await ended).toEqual({ code: 0, signal: null })
  })
})

describe('the tool on money', () => {
  let sandbox: SharedSandbox
  let wallet: ServerWallet
  let server: LocalServer
  let charge: string
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    wallet = await createServerWallet(sandbox)
    server = await startLocalServer(wallet)
    const { structuredContent } = await server.call('chat', { prompt: 'Say hello.', max_tokens: 20 })
    ;({ charge_usdc: charge } = (structuredContent as { payment: { charge_usdc: string } }).payment)
  })
  afterAll(async () => {
    await server.close()
    await wallet.remove()
    await sandbox.stop()
  })

  it('shows the balance and what is left of the limits of all tools and of one', async () => {
    const { home } = wallet
    const result = await server.call('wallet')
    expect(form(result)).toMatchObject({
      address: wallet.address.toLowerCase(),
      balance_usdc: (100 - Number(charge)).toFixed(6).replace(/0+$/, ''),
      allowance_usdc: 'unlimited',
      is_approved: true,
      limits: { call_usdc: '0.1', session_usdc: '1', day_usdc: '5' },
      confirm_above_usdc: '0.05',
      changed_with: 'farebox limits',
    })
    const { session_left_usdc: left } = form(result)['limits'] as Record<string, string>
    expect(Number(left)).toBeCloseTo(1 - Number(charge), 6)
    expect(JSON.stringify(result)).not.toContain(home)
    expect(JSON.stringify(result)).not.toContain(wallet.privateKey?.slice(2))
  })
})

describe('paid tools of the local server', () => {
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
      const keys = await sandbox.boundKeys()
      const refused = await server.call('chat', { prompt: 'Two.', max_tokens: 20, request_id: 'conflict' })
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'request_id_conflict', money: 'none' } },
      })
      expect(await sandbox.boundKeys(keys)).toEqual([])
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
      expect(tools.map(({ name }) => name)).toEqual(
        expect.arrayContaining(['quote', 'chat', 'generate_image', 'speak']),
      )
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
})

describe('calls that are interrupted', () => {
  let sandbox: SharedSandbox
  let wallet: ServerWallet
  let server: LocalServer | undefined
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    wallet = await createServerWallet(sandbox)
  })

  afterEach(async () => {
    await sandbox.setFaults([])
    await server?.close()
  })

  afterAll(async () => {
    await wallet.remove()
    await sandbox.stop()
  })

  /** Holds the vendor's answer until the service works for the call, which is when `interrupt` is called. */
  async function interrupted(
    given: Record<string, unknown>,
    interrupt: () => void,
    signal?: AbortSignal,
  ): Promise<void> {
    const before = (await sandbox.upstreamCalls()).length
    await sandbox.setFaults([{ fault: 'none', delayMs: 2500 }])
    const call = server?.call('chat', given, signal === undefined ? {} : { signal })
    const outcome = call?.then(
      () => 'answered',
      () => 'interrupted',
    )
    await until(async () => (await sandbox.upstreamCalls()).length > before)
    interrupt()
    expect(await outcome).toBe('interrupted')
    await sandbox.setFaults([])
  }
  /** Makes the call again, and returns the charge that its receipt states. */
  async function repeat(given: Record<string, unknown>): Promise<bigint> {
    const answer = await server?.call('chat', given)
    expect(answer).toMatchObject({ structuredContent: { payment: { charge_usdc: expect.any(String) } } })
    const { payment } = (answer as CallToolResult).structuredContent as { payment: { charge_usdc: string } }
    return parseUsdc(payment.charge_usdc)
  }
  describe.each(ERAS)('a call of a client of %s', (era) => {
    it('that is canceled after it was paid for is charged once when it is made again', async () => {
      server = await startLocalServer(wallet, { era })
      const before = await wallet.paid()
      const given = { prompt: `Cancel me, ${era}.`, max_tokens: 20 }
      const controller = new AbortController()
      await interrupted(given, () => controller.abort(), controller.signal)
      expect(await repeat(given)).toBe((await wallet.paid()) - before)
    })
  })

  describe('a call', () => {
    it('whose server is killed is charged once when another one makes it again', async () => {
      server = await startLocalServer(wallet, { era: '2026-07-28' })
      const before = await wallet.paid()
      const given = { prompt: 'Kill me.', max_tokens: 20, request_id: 'killed' }
      const { pid } = server
      await interrupted(given, () => process.kill(pid, 'SIGKILL'))
      server = await startLocalServer(wallet, { era: '2026-07-28' })
      expect(await repeat(given)).toBe((await wallet.paid()) - before)
    })
  })

  describe('a server with a call under way', () => {
    it.each(['its input ends', 'SIGINT', 'SIGTERM'] as const)(
      'ends without an error at once when %s, and the call is charged once when it is made again',
      async (reason) => {
        const before = await wallet.paid()
        const given = { prompt: `End at once: ${reason}.`, max_tokens: 20, request_id: `ended-${reason.length}` }
        const upstream = (await sandbox.upstreamCalls()).length
        await sandbox.setFaults([{ fault: 'none', delayMs: 3000 }])
        const { child, request, ended, errors } = await startRawServer(wallet)
        request(1, 'tools/call', { name: 'chat', arguments: given })
        await until(async () => (await sandbox.upstreamCalls()).length > upstream)
        if (reason === 'its input ends') child.stdin.end()
        else child.kill(reason)
        expect(await ended).toEqual({ code: 0, signal: null })
        expect(errors()).toBe('')
        await sandbox.setFaults([])
        server = await startLocalServer(wallet)
        expect(await repeat(given)).toBe((await wallet.paid()) - before)
      },
    )
  })
})
