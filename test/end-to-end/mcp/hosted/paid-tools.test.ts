import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operationById } from '#shared/operations/registry.ts'
import { PAID_TOOL_NAMES, TOOL_OPERATIONS } from '../../../../api/schemas/tool-operations.ts'
import { createX402McpClient, type ToolResult, type X402McpClient } from '../../../support/mcp/x402-mcp-client.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

const CHAT = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const CHAT_PATH = '/v1/chat/completions'
const KEY = 'farebox/idempotency-key'
const PAYMENT = 'x402/payment'

let sandbox: SharedSandbox
let client: X402McpClient
/** Has approved Permit2, so that its calls may overlap. */
let payer: Payer
let argumentsOf: Readonly<Record<string, object>>
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  const { baseUrl, rpcUrl, network, payer: own } = sandbox.info
  client = createX402McpClient({ url: `${baseUrl}/mcp`, privateKey: own.privateKey, rpcUrl, network })
  payer = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
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

/** What must be equal on every repetition. */
const stable = ({ content, structuredContent, isError }: ToolResult) =>
  JSON.stringify({ content, structuredContent, isError })

const errorOf = (result: ToolResult) => {
  expect(result.isError).toBe(true)
  return (result.structuredContent as { error: Record<string, unknown> }).error
}

describe('a client of the x402 page with the official signer', () => {
  it.each(PAID_TOOL_NAMES)('pays for %s in at most 3 calls, once, with settlement and receipt', async (tool) => {
    const before = await count()
    const { result, settlement, calls } = await client.pay(tool, argumentsOf[tool] ?? {})
    expect(result.isError).toBeUndefined()
    expect(result.content.length).toBeGreaterThan(1)
    expect(calls).toBeLessThanOrEqual(3)
    expect(settlement).toMatchObject({ success: true, payer: sandbox.info.payer.address.toLowerCase() })
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

  it('must be named by a payment that comes without the extensions of its challenge', async () => {
    const { [PAYMENT]: payment } = await sign()
    expect(payment).not.toHaveProperty('extensions')
    const refused = await client.call('chat', CHAT, { [PAYMENT]: payment })
    expect(errorOf(refused)).toMatchObject({ code: 'missing_idempotency_key', payment: 'none' })
    expect(refused.content[0]?.text).toContain(`_meta["${KEY}"]`)
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

  it('are refused for the same reasons, in the terms of each', async () => {
    const wrong = { ...CHAT, max_tokens: -1 }
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
