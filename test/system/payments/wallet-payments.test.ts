import { randomUUID } from 'node:crypto'
import { type Hex, keccak256, toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import { createFarebox } from '../../../client/farebox.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import {
  type CustomPayment,
  challengeOf,
  paymentHeader,
  signCustomPayment,
  valueAt,
  withValue,
} from '../../support/payer/custom-payment.ts'
import { createPayer, type PayerOfAnyKind } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { createSafe, freshKeyOwners, type SafeWallet } from '../../support/wallets/safe-wallet.ts'

const STRANGERS = 20
const SIGNATURE = 'payload.signature'

let sandbox: TestSandbox
let rpc: RpcProxy
let wallet: SafeWallet
beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      rpc = await startRpcProxy(real.rpcUrl)
      return real
    },
    environmentOf: (name): Record<string, string> => (name === 'worker' ? {} : { RPC_URL: rpc.url }),
  })
  wallet = await createSafe(sandbox.info.rpcUrl, { approved: true, owners: freshKeyOwners(2) })
})
afterAll(async () => {
  await sandbox.stop()
  await rpc.stop()
})

async function challenge(idempotencyKey: string = randomUUID()) {
  const answer = await sandbox.transcribe({ idempotencyKey })
  expect(answer.status).toBe(402)
  return { idempotencyKey, required: challengeOf(answer) }
}
const send = (idempotencyKey: string, payment: unknown) =>
  sandbox.transcribe({ idempotencyKey, headers: paymentHeader(payment) })
async function answerOf(response: Response) {
  const body = (await response.json()) as Record<string, unknown>
  return { status: response.status, code: body['code'] ?? null, body }
}
/** Signs a fresh challenge. */
async function sign(payer: PayerOfAnyKind, idempotencyKey?: string) {
  const { required, ...bound } = await challenge(idempotencyKey)
  return { ...bound, payment: await signCustomPayment(required, payer) }
}
/** Another signature of the same length, which nobody made. */
const madeUp = (payment: CustomPayment): Hex => {
  const digits = String(valueAt(payment, SIGNATURE)).length - 2
  return `0x${keccak256(toHex(randomUUID()))
    .slice(2)
    .repeat(Math.ceil(digits / 64))
    .slice(0, digits)}`
}
const forged = (payment: CustomPayment) => withValue(payment, SIGNATURE, madeUp(payment))

/** What the API asks at any time, for whatever call. */
const POLLED = /^eth_(getBlock|blockNumber|feeHistory)/

/** Returns what the API asks the chain for one paid call. */
async function callsOf(payer: PayerOfAnyKind): Promise<readonly string[]> {
  const { idempotencyKey, payment } = await sign(payer)
  const before = rpc.calls.length
  expect((await send(idempotencyKey, payment)).status).toBe(200)
  return rpc.calls.slice(before).filter((method) => !POLLED.test(method))
}

const callsOfTwo = async (payer: PayerOfAnyKind) => [await callsOf(payer), await callsOf(payer)] as const

describe('what a call costs the API at the node', () => {
  it('is one call for a known key, and two for a known wallet', async () => {
    const key = await createPayer(sandbox.info.rpcUrl, { approved: true })
    const [ofKey, [, ofWallet]] = [await callsOfTwo(key), await callsOfTwo(wallet)]
    // The first call of a new payer reads the balance; that of a new wallet its code as well.
    expect(ofKey).toEqual([['eth_call', 'eth_call'], ['eth_call']])
    expect(ofWallet.toSorted()).toEqual(['eth_call', 'eth_createAccessList'])
  })
})

describe('a contract wallet', () => {
  it('pays, is charged once, and reads the same bytes again with the same or a fresh signature', async () => {
    const { idempotencyKey, payment } = await sign(wallet)
    const paid = await send(idempotencyKey, payment)
    const [status, bytes] = [paid.status, await paid.text()]
    expect({ status, bytes }).toMatchObject({ status: 200 })
    const balance = await sandbox.chain.usdcBalance(wallet.address)
    for (const again of [payment, (await sign(wallet, idempotencyKey)).payment]) {
      const replayed = await send(idempotencyKey, again)
      expect([replayed.status, await replayed.text()]).toEqual([200, bytes])
    }
    expect(await sandbox.chain.usdcBalance(wallet.address)).toBe(balance)
  })

  it('is the only one who reads its result: a signature that it does not take opens nothing', async () => {
    const { idempotencyKey, payment } = await sign(wallet)
    expect((await send(idempotencyKey, payment)).status).toBe(200)
    const fresh = await sign(wallet, idempotencyKey)
    for (const stolen of [forged(payment), forged(fresh.payment)])
      expect(await answerOf(await send(idempotencyKey, stolen))).toMatchObject({
        status: 402,
        code: 'payment_signature_invalid',
      })
    expect((await send(idempotencyKey, fresh.payment)).status).toBe(200)
  })

  it('is never refused for what strangers sign in its name, who are answered from memory when they repeat it', async () => {
    const { idempotencyKey, payment } = await sign(wallet)
    for (let index = 0; index < STRANGERS; index += 1) {
      const stolen = forged(payment)
      const first = await answerOf(await send(idempotencyKey, stolen))
      expect(first).toMatchObject({ status: 402, code: 'payment_signature_invalid' })
      const before = rpc.calls.length
      await send(idempotencyKey, stolen)
      expect(rpc.calls.slice(before).filter((method) => method === 'eth_createAccessList')).toEqual([])
    }
    expect((await send(idempotencyKey, payment)).status).toBe(200)
  })

  it('without an allowance reads the transaction that approves Permit2, and pays once it is sent', async () => {
    const unapproved = await createSafe(sandbox.info.rpcUrl)
    const { idempotencyKey, payment } = await sign(unapproved)
    const { status, body } = await answerOf(await send(idempotencyKey, payment))
    expect({ status, body }).toMatchObject({
      status: 412,
      body: {
        code: 'permit2_allowance_required',
        message: expect.stringContaining('A contract wallet approves Permit2 in a transaction of its own'),
        approval: { to: USDC_ADDRESS.toLowerCase(), data: expect.stringMatching(/^0x095ea7b3/) },
      },
    })
    const described = await fetch(`${sandbox.info.baseUrl}/v1/allowances?owner=${unapproved.address}`)
    const { approval, wallet: judged, storing } = (await described.json()) as Record<string, Record<string, unknown>>
    expect([approval, judged, storing?.['reason']]).toEqual([
      body['approval'],
      { has_code: true, may_pay: true, message: null },
      'owner_has_code',
    ])
    await unapproved.send(body['approval'] as { to: Hex; data: Hex })
    const again = await sign(unapproved)
    expect((await send(again.idempotencyKey, again.payment)).status).toBe(200)
  })

  it('pays although its client adds a permit that no token takes', async () => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, wallet, { permit: {} })
    expect(String(valueAt(payment, 'extensions.eip2612GasSponsoring.info.signature')).length).toBeGreaterThan(132)
    expect((await send(idempotencyKey, payment)).status).toBe(200)
  })

  it('pays through the client as any viem account does, and reads the transaction that is missing', async () => {
    const { baseUrl } = sandbox.info
    const ask = async ({ account }: PayerOfAnyKind) => {
      const farebox = await createFarebox({ wallet: account, baseUrl, journal: 'memory', verify: 'never' })
      const body = JSON.stringify({ model: 'textmodel-3.5-flash-lite', messages: [{ role: 'user', content: 'Hello' }] })
      const answer = await farebox.fetch(`${baseUrl}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      const said = { status: answer.status, text: await answer.text() }
      await farebox.close()
      return said
    }
    expect(await ask(wallet)).toMatchObject({ status: 200 })
    expect(await ask(await createSafe(sandbox.info.rpcUrl))).toMatchObject({
      text: expect.stringMatching(/approves Permit2 in a transaction of its own: to 0x833589fc.*data 0x095ea7b3/),
    })
  })

  it('waits while the node cannot say what runs, without a call of a vendor, and pays with the same payment', async () => {
    const { idempotencyKey, payment } = await sign(wallet)
    const calls = (await sandbox.upstreamCalls()).length
    rpc.setFault({ kind: 'error', code: -32601, message: 'the method does not exist' }, 'eth_createAccessList')
    const response = await send(idempotencyKey, payment)
    expect({ status: response.status, text: await response.text() }).toMatchObject({
      status: 503,
      text: expect.stringContaining('no money moved'),
    })
    const key = await createPayer(sandbox.info.rpcUrl, { approved: true })
    const byKey = await sign(key)
    expect((await send(byKey.idempotencyKey, byKey.payment)).status).toBe(200)
    expect(await sandbox.upstreamCalls()).toHaveLength(calls + 1)
    rpc.setFault(null)
    expect((await send(idempotencyKey, payment)).status).toBe(200)
  })
})
