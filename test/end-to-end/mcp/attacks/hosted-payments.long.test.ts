import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createPayingClient } from '../../../../infra/sandbox/paying-client.ts'
import { createPayer, type Payer } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import {
  callHosted,
  challengeIn,
  codeOf,
  KEY_META,
  PAYMENT_META,
  type PaidHostedCall,
  payHosted,
  signHosted,
} from './support/hosted-calls.ts'
import { THIEF } from './support/injection-texts.ts'
import { logsOf } from './support/logs-of.ts'
import { outflowsOf, spent } from './support/money-checks.ts'

let sandbox: SharedSandbox
let payer: Payer
let signer: ReturnType<typeof createPayingClient>
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())
beforeEach(async () => {
  const { rpcUrl, network } = sandbox.info
  payer = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  signer = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
})

const chat = (content = 'Good evening.') => ({
  model: 'textmodel-2.5-flash',
  messages: [{ role: 'user', content }],
  max_tokens: 20,
})
const sign = (name = 'chat', args: object = chat()) => signHosted(sandbox.info.baseUrl, signer, name, args)
const pay = (call: PaidHostedCall) => payHosted(sandbox.info.baseUrl, call)
const transfers = async () =>
  (await outflowsOf(sandbox, payer.address)).filter(({ kind }) => kind === 'transfer').map(({ to }) => to)
const withPayment = ({ name, args, meta }: PaidHostedCall, payment: unknown): PaidHostedCall => ({
  name,
  args,
  meta: { ...meta, [PAYMENT_META]: payment },
})

type Json = Record<string, unknown>
const changed = (call: PaidHostedCall, change: (payment: Json, authorization: Json) => void): PaidHostedCall => {
  const payment = structuredClone(call.meta[PAYMENT_META]) as Json & {
    payload: { permit2Authorization: Json }
  }
  change(payment, payment.payload.permit2Authorization)
  return withPayment(call, payment)
}

describe('a client that cannot pay', () => {
  it('gets the price and the terms each time, and begins nothing', async () => {
    const jobs = await sandbox.added('jobs')
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => callHosted(sandbox.info.baseUrl, 'chat', chat())),
    )
    for (const answer of answers) {
      const { accepts } = challengeIn(answer)
      expect(accepts[0]).toMatchObject({ scheme: 'upto', payTo: sandbox.info.payTo.toLowerCase() })
      const [block] = answer.content
      expect(JSON.parse(block?.text ?? '')).toMatchObject({ 'x402/error': { code: 402, data: { x402Version: 2 } } })
    }
    expect(await sandbox.added('jobs')).toBe(jobs)
  })

  it('is not served for a payment in a header, an argument or a structure of its own', async () => {
    const { args, meta } = await sign()
    const payment = meta[PAYMENT_META]
    const encoded = Buffer.from(JSON.stringify(payment)).toString('base64')
    const body = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'chat', arguments: args, _meta: { x402: { payment }, 'x402/Payment': payment } },
    }
    const answer = await fetch(`${sandbox.info.baseUrl}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'payment-signature': encoded,
        'x-payment': encoded,
      },
      body: JSON.stringify(body),
    })
    expect(await answer.text()).toMatch(/accepts/)
    const inArguments = await callHosted(sandbox.info.baseUrl, 'chat', { ...args, payment })
    expect(inArguments.isError).toBe(true)
    expect(await transfers()).toEqual([])
  })
})

describe('a payment for another call', () => {
  it('is a conflict with other arguments, and neither call is charged', async () => {
    const call = await sign()
    const answer = await pay({ ...call, args: chat('Good morning.') })
    expect(answer.isError).toBe(true)
    expect(codeOf(answer)).toBe('idempotency_key_reused')
    expect(await transfers()).toEqual([])
    expect((await pay(call)).isError ?? false).toBe(false)
    expect(await transfers()).toHaveLength(1)
  })

  it('is a conflict with other arguments after the call was charged, too', async () => {
    const call = await sign()
    await pay(call)
    expect(codeOf(await pay({ ...call, args: { ...chat(), max_tokens: 21 } }))).toBe('idempotency_key_reused')
    expect(await transfers()).toHaveLength(1)
  })

  it('is a conflict with another tool', async () => {
    const call = await sign()
    const answer = await pay({ ...call, name: 'speak', args: { model: 'speechvendor/flash-v2.5', input: 'Hello.' } })
    expect(codeOf(answer)).toBe('idempotency_key_reused')
    expect(await transfers()).toEqual([])
  })

  it('does not pay for a dearer call under another key', async () => {
    const cheap = await sign()
    const args = { ...chat(), max_tokens: 60_000 }
    const { meta, challenge } = await sign('chat', args)
    expect(BigInt(challenge.accepts[0]?.amount ?? 0)).toBeGreaterThan(2000n)
    const answer = await pay({ name: 'chat', args, meta: { ...meta, [PAYMENT_META]: cheap.meta[PAYMENT_META] } })
    expect(answer.isError).toBe(true)
    expect(await transfers()).toEqual([])
  })

  it('that was settled does not pay again under another key', async () => {
    const call = await sign()
    await pay(call)
    const other = await sign()
    const stolen = await pay(withPayment(other, call.meta[PAYMENT_META]))
    expect(stolen.isError).toBe(true)
    expect(stolen.structuredContent?.['choices']).toBeUndefined()
    expect(await transfers()).toHaveLength(1)
  })
})

describe('a payment that is not what the challenge asked for', () => {
  const CHANGES: readonly (readonly [string, (payment: Json, authorization: Json) => void])[] = [
    ['another recipient', (_, authorization) => Object.assign(authorization['witness'] as Json, { to: THIEF })],
    ['another facilitator', (_, { witness }) => Object.assign(witness as Json, { facilitator: THIEF })],
    ['another payer', (_, authorization) => Object.assign(authorization, { from: THIEF })],
    ['another token', (_, { permitted }) => Object.assign(permitted as Json, { token: THIEF })],
    ['a lower amount', (_, { permitted }) => Object.assign(permitted as Json, { amount: '1' })],
    ['a higher amount', (_, { permitted }) => Object.assign(permitted as Json, { amount: '999999999' })],
    ['another nonce', (_, authorization) => Object.assign(authorization, { nonce: '1' })],
    ['a later deadline', (_, authorization) => Object.assign(authorization, { deadline: '9999999999' })],
    ['another spender', (_, authorization) => Object.assign(authorization, { spender: THIEF })],
    ['another scheme', ({ accepted }) => Object.assign(accepted as Json, { scheme: 'exact' })],
    ['another network', ({ accepted }) => Object.assign(accepted as Json, { network: 'eip155:1' })],
    ['an accepted recipient of its own', ({ accepted }) => Object.assign(accepted as Json, { payTo: THIEF })],
    ['no signature', ({ payload }) => Object.assign(payload as Json, { signature: '0x' })],
    ['the first version', (payment) => Object.assign(payment, { x402Version: 1 })],
  ]

  it.each(CHANGES)('is refused: %s', async (_, change) => {
    const call = await sign()
    const answer = await pay(changed(call, change))
    expect(answer.isError).toBe(true)
    expect(await transfers()).toEqual([])
    // The same key is still good for the payment that was asked for.
    expect((await pay(call)).isError ?? false).toBe(false)
    expect(await transfers()).toEqual([sandbox.info.payTo.toLowerCase()])
  })

  it.each([
    ['a text', 'payment'],
    ['its own encoding', 'eyJ4NDAyVmVyc2lvbiI6Mn0='],
    ['a number', 1],
    ['a list', []],
    ['an empty object', {}],
    ['true', true],
    ['an object of great depth', JSON.parse(`${'{"a":'.repeat(50)}1${'}'.repeat(50)}`)],
    ['200,000 characters', { x402Version: 2, padding: 'x'.repeat(200_000) }],
  ])('is refused when it is %s, with a sentence and without a charge', async (_, payment) => {
    const answer = await callHosted(sandbox.info.baseUrl, 'chat', chat(), {
      [KEY_META]: crypto.randomUUID(),
      [PAYMENT_META]: payment,
    })
    expect(answer.isError).toBe(true)
    expect(JSON.stringify(answer).length).toBeLessThan(20_000)
    expect(await transfers()).toEqual([])
  })
})

describe('the private key of a caller', () => {
  it.each([
    ['an argument', (key: string) => [{ ...chat(), private_key: key }, {}]],
    ['an argument of another name', (key: string) => [{ ...chat(), wallet_key: key }, {}]],
    ['metadata', (key: string) => [chat(), { 'x402/privateKey': key }]],
    ['metadata of no telling name', (key: string) => [chat(), { auth: { token: key } }]],
  ] as const)('is refused in %s, and neither returned nor logged', async (_, make) => {
    const key = generatePrivateKey()
    const [args, meta] = make(key)
    const answer = await callHosted(sandbox.info.baseUrl, 'chat', args as object, meta)
    expect(answer.isError).toBe(true)
    expect(JSON.stringify(answer)).not.toContain(key.slice(2))
    expect(JSON.stringify(answer)).toMatch(/private key/)
    expect(await logsOf(sandbox)).not.toContain(key.slice(2))
  })
})

describe('one call that is repeated', () => {
  it('50 times at once and one after the other is charged once, with equal bytes', async () => {
    const call = await sign()
    const bytes = async () => {
      const { content, structuredContent, isError } = await pay(call)
      return JSON.stringify({ content, structuredContent, isError })
    }
    const together = await Promise.all(Array.from({ length: 25 }, bytes))
    const inTurn: string[] = []
    for (let count = 0; count < 25; count += 1) inTurn.push(await bytes())
    const results = [...together, ...inTurn].filter((text) => !text.includes('"isError":true'))
    expect(results.length).toBeGreaterThanOrEqual(26)
    expect(new Set(results).size).toBe(1)
    expect(await transfers()).toHaveLength(1)
    expect(await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).toHaveLength(1)
  })

  it('with a key of its own each time is charged each time: the count above can fail', async () => {
    const calls = await Promise.all(Array.from({ length: 5 }, () => sign()))
    for (const call of calls) await pay(call)
    expect(await transfers()).toHaveLength(5)
    expect(spent({ outflows: await outflowsOf(sandbox, payer.address) })).toBe(10_000n)
  })
})
