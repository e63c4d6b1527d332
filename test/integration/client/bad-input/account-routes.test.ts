import { afterEach, describe, expect, it } from 'vitest'
import { issueSignInChallenge } from '../../../../api/account/sign-in-challenge.ts'
import { type Farebox, FareboxError } from '../../../../client/farebox.ts'
import { countingAccount, openClient } from './support/open-client.ts'
import { json, type ScriptedServer, type Step, startScriptedServer } from './support/scripted-server.ts'

const PERMIT2 = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
const USDC = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const OTHER = '0x9999999999999999999999999999999999999999'
const RECEIPTS = '/v1/account/receipts'

/** The challenge that the service at this URL would issue for a route. */
const signInFor = (publicBaseUrl: string, network = 'eip155:8453', path = RECEIPTS): Step => {
  const settings = { challengeSecrets: ['secret'] as const, publicBaseUrl, network, now: () => new Date() }
  const extensions = issueSignInChallenge(settings, path)
  const resource = { url: `${publicBaseUrl}${path}`, description: '', mimeType: '' }
  const required = { x402Version: 2, error: 'sign_in_required', resource, accepts: [], extensions }
  const header = Buffer.from(JSON.stringify(required)).toString('base64')
  return json({ code: 'sign_in_required', payment: 'none', retry: 'never' }, 402, { 'payment-required': header })
}

const statusOf = (owner: string, changes: Record<string, unknown>, message = {}, domain = {}) => ({
  object: 'allowance_status',
  network: 'eip155:8453',
  asset: USDC,
  owner,
  spender: PERMIT2,
  allowance: '0',
  balance_usdc_atomic: '5000000',
  permit_nonce: '0',
  block: 1,
  sponsoring: {
    available: true,
    reason: null,
    message: null,
    retry_after_seconds: null,
    minimum_value: '1',
    minimum_deadline_seconds: 60,
  },
  typed_data: {
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: USDC, ...domain },
    types: {},
    primaryType: 'Permit',
    message: { deadline: String(Math.floor(Date.now() / 1000) + 3600), ...message },
  },
  ...changes,
})

async function firstReceipt(client: Farebox): Promise<unknown> {
  for await (const receipt of client.receipts({ source: 'service' })) return receipt
  return undefined
}

let server: ScriptedServer
afterEach(() => server.stop())

describe('a server that asks for a sign-in', () => {
  it.each([
    ['of another service', () => signInFor('https://farebox.example')],
    ['of another port of this machine', () => signInFor('http://127.0.0.1:1')],
    ['of another network', () => signInFor(server.baseUrl, 'eip155:1')],
    ['of another route', () => signInFor(server.baseUrl, 'eip155:8453', '/v1/account/debts')],
  ])('the challenge %s is not signed', async (_, challengeOf) => {
    let step: Step = json({})
    server = await startScriptedServer({ free: { [RECEIPTS]: (received, reply) => step(received, reply) } })
    step = challengeOf()
    const { counting, signed } = countingAccount()
    const client = await openClient(server, { wallet: counting })
    const error = await firstReceipt(client).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(FareboxError)
    expect(error).toMatchObject({ code: 'sign_in_refused', money: 'none' })
    expect(signed).toEqual([])
  })

  it('a server that never accepts a sign-in gets few of them', async () => {
    let step: Step = json({})
    server = await startScriptedServer({ free: { [RECEIPTS]: (received, reply) => step(received, reply) } })
    step = signInFor(server.baseUrl)
    const { counting, signed } = countingAccount()
    const client = await openClient(server, { wallet: counting })
    await expect(firstReceipt(client)).rejects.toMatchObject({
      money: 'none',
    })
    expect(signed.length).toBeGreaterThan(0)
    expect(signed.length).toBeLessThan(4)
  })
})

async function approveWith(changes: Record<string, unknown>, message = {}, domain = {}) {
  const { counting, signed } = countingAccount()
  const status = statusOf(counting.address.toLowerCase(), changes, message, domain)
  server = await startScriptedServer({ free: { '/v1/allowances': json(status) } })
  const client = await openClient(server, { wallet: counting })
  const error = await client.approve({ patienceMs: 0 }).catch((thrown: unknown) => thrown)
  return { error, signed }
}

describe('a server that asks for a permit', () => {
  it('on the expected terms it is signed', async () => {
    expect((await approveWith({})).signed.map(({ primaryType }) => primaryType)).toEqual(['Permit'])
  })

  it.each([
    ['another spender', { spender: OTHER }, {}, {}, /spender is 0x9999/],
    ['another asset', { asset: OTHER }, {}, { verifyingContract: OTHER }, /asset is 0x9999/],
    ['another contract', {}, {}, { verifyingContract: OTHER }, /contract is 0x9999/],
    ['another network', { network: 'eip155:1' }, {}, { chainId: 1 }, /network is eip155:1/],
    ['another chain', {}, {}, { chainId: 1 }, /chain id is 1/],
    ['another owner', { owner: OTHER }, {}, {}, /owner is 0x9999/],
    ['a deadline in a year', {}, { deadline: '1900000000' }, {}, /deadline is 1900000000/],
    ['a deadline that is no number', {}, { deadline: '-1' }, {}, /deadline is -1/],
    ['a nonce that is no number', { permit_nonce: 'x' }, {}, {}, /nonce is x/],
  ])('for %s it is refused, with what differed', async (_, changes, message, domain, difference) => {
    const { error, signed } = await approveWith(changes, message, domain)
    expect(error).toMatchObject({ code: 'challenge_refused', message: expect.stringMatching(difference) })
    expect(signed).toEqual([])
  })

  it.each([
    ['an allowance that is no number', { allowance: 'x' }],
    ['no sponsoring', { sponsoring: null }],
    ['no message to sign', { typed_data: null }],
    ['a nonce of another type', { permit_nonce: {} }],
    ['a network of another type', { network: null }],
  ])('with %s it is an error with a message, and nothing is signed', async (_, changes) => {
    const { error, signed } = await approveWith(changes)
    expect(error).toBeInstanceOf(FareboxError)
    expect(error).toMatchObject({ money: 'none' })
    expect(signed).toEqual([])
  })
})
