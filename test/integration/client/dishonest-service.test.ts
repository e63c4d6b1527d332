import { inspect } from 'node:util'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createFarebox, type Farebox, FareboxError, walletFromPrivateKey } from '../../../client/farebox.ts'
import { authorizationIn, CHAT, countingAccount } from '../../support/client/open-client.ts'
import {
  type ChallengeChanges,
  challenge,
  charged,
  foreign,
  MAXIMUM,
  type ScriptedServer,
  type Step,
  serviceError,
  startScriptedServer,
} from '../../support/client/scripted-server.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const failureOf = async (work: Promise<unknown>): Promise<FareboxError> => {
  const outcome = await work.catch((error: unknown) => error)
  expect(outcome).toBeInstanceOf(FareboxError)
  return outcome as FareboxError
}
const call = (client: Farebox, options: Parameters<Farebox['chat']['create']>[1] = {}) =>
  failureOf(client.chat.create(CHAT, { patienceMs: 0, ...options }))
const OTHER = '0x9999999999999999999999999999999999999999'
/** What differs from the terms of the first call, and how the refusal names it. */
const CHANGES: readonly (readonly [string, ChallengeChanges, RegExp])[] = [
  ['another recipient', { terms: { payTo: OTHER } }, /payTo is 0x9999.* instead of 0x1111/],
  ['another asset', { terms: { asset: OTHER } }, /asset is 0x9999.* instead of 0x8335/],
  ['another network', { terms: { network: 'eip155:1' } }, /network is eip155:1 instead of eip155:8453/],
  ['a facilitator that is no address', { terms: { facilitators: ['0x12'] } }, /facilitator is 0x12 instead of/],
  ['no facilitator', { extra: { facilitatorAddress: undefined } }, /facilitator is missing instead of/],
  ['a deadline after a day', { terms: { maxTimeoutSeconds: 86_400 } }, /timeout is 86400 s instead of at most 3600 s/],
  ['a higher price than asked for', { amount: 5035n }, /maximum is 0.005035 USDC instead of 0.005034 USDC/],
]
/** Refuses each payment with one code, without a wait. */
const refusing =
  (code: Parameters<typeof serviceError>[0]): Step =>
  (received, reply) =>
    received.payment === undefined
      ? challenge()(received, reply)
      : serviceError(code, { retryAfterSeconds: 0 })(received, reply)
function expectPlain(error: FareboxError) {
  expect(error.message).not.toMatch(/[\p{Cc}\u202e]/u)
  expect(error.message.length).toBeLessThan(2500)
  expect(error.code).toMatch(/^[a-z0-9_]+$/)
  expect(error.requestId ?? '').not.toMatch(/\p{Cc}/u)
}
const MINUTE_MS = 60_000
/** Changes this process's clock only; the service's processes keep theirs. */
function shiftClock(minutes: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + minutes * MINUTE_MS })
}

describe('a service that lies', () => {
  let server: ScriptedServer
  beforeAll(async () => {
    server = await startScriptedServer()
  })

  afterEach(() => server.always(foreign(500, 'unscripted')))

  afterAll(() => server.stop())

  async function open(budget: Parameters<typeof createFarebox>[0]['budget'] = { session: '1' }) {
    const { counting, signed } = countingAccount()
    const { baseUrl } = server
    const client = await createFarebox({ wallet: counting, baseUrl, journal: 'memory', budget, verify: 'never' })
    const from = server.received.length
    const payments = () => server.received.slice(from).flatMap(({ payment }) => payment ?? [])
    return { client, signed, payments }
  }
  describe('an idempotency key that the service cannot accept', () => {
    it.each(['', 'schlüssel', 'a\nb', '→', 'x'.repeat(256)])(
      '%j is refused at once, before anything is sent',
      async (requestId) => {
        const { client } = await open()
        const from = server.received.length
        await expect(client.chat.create(CHAT, { requestId })).rejects.toThrow(RangeError)
        expect(server.received).toHaveLength(from)
      },
    )
  })

  describe('a server that asks for other terms', () => {
    it.each(CHANGES)('%s is refused before anything is signed, with what differed', async (_, changes, difference) => {
      const { client, signed } = await open()
      server.script(challenge(), charged())
      await client.chat.create(CHAT)
      signed.length = 0
      server.script(challenge(changes))
      const error = await call(client, { maximum: '0.005034' })
      expect(error).toMatchObject({ code: 'challenge_refused', money: 'none' })
      expect(error.message).toMatch(difference)
      expect(error.message).toMatch(/Nothing was charged\. Nothing was signed\./)
      expect(signed).toEqual([])
      expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM)
    })

    it.each(CHANGES)('%s in the answer to a signed payment is refused as well', async (_, changes) => {
      const { client, signed } = await open()
      server.script(challenge(), challenge({ ...changes, refusal: 'challenge_expired' }))
      const error = await call(client)
      expect(error).toMatchObject({ code: 'challenge_refused' })
      expect(signed).toHaveLength(1)
    })

    it.each([
      ['an asset that is not USDC of Base', { terms: { asset: OTHER } }],
      ['a network that is not Base', { terms: { network: 'eip155:1' } }],
    ] as const)('%s is refused at the first use, too', async (_, changes) => {
      const { client, signed } = await open()
      server.script(challenge(changes))
      expect(await call(client)).toMatchObject({ code: 'challenge_refused', money: 'none' })
      expect(signed).toEqual([])
    })

    it('a call of more than 1 USDC is refused unless its limit was raised', async () => {
      const { client, signed } = await open({})
      server.script(challenge({ amount: 1_000_001n }))
      expect(await call(client)).toMatchObject({ code: 'budget_exceeded', limit: 'call', money: 'none' })
      expect(signed).toEqual([])
      const { client: generous } = await open({ call: '1.000001' })
      server.script(challenge({ amount: 1_000_001n }), charged())
      await generous.chat.create(CHAT)
    })

    it('a challenge that has expired is refused, and the clock is not blamed if the server’s own agrees', async () => {
      const { client, signed } = await open()
      server.script(challenge({ validUntil: new Date(Date.now() - 400_000) }))
      const error = await call(client)
      expect(error).toMatchObject({ code: 'challenge_expired_locally', money: 'none' })
      expect(error.message).toMatch(/Nothing was signed.*server’s clock agrees/)
      expect(signed).toEqual([])
    })

    it('a challenge that never expires does not make the signature last longer', async () => {
      const { client, payments } = await open()
      server.script(challenge({ validUntil: new Date('9999-01-01') }), charged())
      await client.chat.create(CHAT)
      const { deadline } = authorizationIn(payments()[0])
      expect(Number(deadline) * 1000).toBeLessThanOrEqual(Date.now() + 3_600_000)
    })

    it('a permit is never signed unless an RPC URL was configured', async () => {
      const { client, signed } = await open()
      server.script(challenge(), charged())
      await client.chat.create(CHAT)
      expect(signed.map(({ primaryType }) => primaryType)).toEqual(['PermitWitnessTransferFrom'])
    })
  })

  describe('a server that collects signatures', () => {
    it.each(['provider_unavailable', 'permit_already_used', 'challenge_expired', 'settlement_failed'] as const)(
      'signatures that it refuses with %s and could still settle never exceed the budget by more than itself',
      async (code) => {
        const { client, payments } = await open({ session: '0.05' })
        server.always(refusing(code))
        await call(client, { patienceMs: 3000 })
        await call(client, { patienceMs: 3000 })
        const amounts = payments().map((payment) => BigInt(authorizationIn(payment).permitted.amount))
        const nonces = new Set(payments().map((payment) => authorizationIn(payment).nonce))
        expect(nonces.size).toBeGreaterThan(1)
        expect(amounts.reduce((sum, amount) => sum + amount, 0n)).toBeLessThanOrEqual(100_000n)
      },
    )

    it.each(['internal_error', 'provider_unavailable'] as const)(
      'repetitions without a wait, asked for with %s, become rare',
      async (code) => {
        const { client } = await open()
        server.always(refusing(code))
        const from = server.received.length
        await call(client, { patienceMs: 2000 })
        expect(server.received.length - from).toBeLessThan(40)
      },
    )
  })

  describe('a server that lies about a charge', () => {
    it('a charge above the maximum is reported, and counts with the maximum, which is all that can be taken', async () => {
      const { client } = await open({ day: '1' })
      server.script(challenge(), charged({ amount: 999_000_000n }))
      const { payment } = await client.chat.create(CHAT)
      expect(payment).toMatchObject({ charged: '999', maximum: '0.005034', verified: 'failed' })
      expect(payment.problems.join()).toMatch(/above the authorized maximum/)
      expect(client.budgetLeft().day).toBe(1_000_000n - MAXIMUM)
    })

    it.each(['-5', '1e3', '0x10', '', '1.5', '9'.repeat(40)])(
      'the charge %j is no amount: the maximum counts',
      async (amount) => {
        const { client } = await open()
        server.script(challenge(), charged({ amount }))
        expect((await client.chat.create(CHAT)).payment.charged).toBe('0.005034')
        expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM)
      },
    )

    it('a lower charge without a receipt counts with the maximum, which may have been taken', async () => {
      const { client } = await open()
      server.script(challenge(), charged({ amount: 0n, receiptId: '' }))
      expect((await client.chat.create(CHAT)).payment).toMatchObject({ charged: '0.005034', receiptId: null })
      expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM)
    })

    it('two charges under one key without a receipt are two charges', async () => {
      const { client } = await open()
      for (let turn = 1; turn <= 2; turn++) {
        server.script(challenge(), foreign(200, '{}', { 'content-type': 'application/json' }))
        await client.chat.create(CHAT, { requestId: 'same' })
        expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM * BigInt(turn))
      }
    })

    it('a transaction that is none is left out', async () => {
      const { client } = await open()
      server.script(challenge(), charged({ transaction: '\u001b]0;owned\u0007<script>' }))
      expect((await client.chat.create(CHAT)).payment.transaction).toBeNull()
    })
  })

  describe('text of a server', () => {
    const hostile = '\u001b[2J\u001b]0;owned\u0007\u202eline\r\nNothing was charged. Send 5 USDC to 0x99\u0000'

    it.each<[string, { readonly request_id?: string } & Record<string, string>]>([
      ['message', { message: hostile.repeat(50_000) }],
      ['code', { code: hostile.repeat(1000), message: 'No.' }],
      ['request id', { message: 'No.', request_id: hostile.repeat(1000) }],
      ['param', { message: 'No.', param: hostile }],
    ])('a hostile %s changes neither a terminal nor the length of a log', async (_, { request_id, ...error }) => {
      const { client } = await open()
      const body = { type: 'error', error: { payment: 'none', retry: 'never', ...error }, request_id }
      server.script(foreign(400, JSON.stringify(body), { 'content-type': 'application/json' }))
      expectPlain(await call(client))
    })

    it.each([
      ['network', { terms: { network: `eip155:1${hostile.repeat(1000)}` } }],
      ['facilitator', { extra: { facilitatorAddress: hostile.repeat(1000) } }],
    ])('a hostile %s in a challenge changes neither a terminal nor the length of a log', async (_, changes) => {
      const { client } = await open()
      // Larger headers than Node accepts are lost connections.
      const short = JSON.parse(JSON.stringify(changes).slice(0, 100_000)) as ChallengeChanges
      const shortened =
        'terms' in short
          ? { terms: { network: `eip155:1${hostile.repeat(20)}` } }
          : { extra: { facilitatorAddress: hostile.repeat(20) } }
      server.script(challenge(shortened))
      const error = await call(client)
      expect(error).toMatchObject({ code: 'challenge_refused' })
      expectPlain(error)
    })

    it('a challenge in a header larger than any client accepts is a lost connection, before anything is signed', async () => {
      const { client, signed } = await open()
      server.always(challenge({ extra: { padding: 'x'.repeat(20_000) } }))
      expect(await call(client)).toMatchObject({ code: 'connection_lost', money: 'none' })
      expect(signed).toEqual([])
    })
  })

  describe('secrets', () => {
    it('no error contains the private key or a payment that could still be used', async () => {
      const privateKey = generatePrivateKey()
      const account = privateKeyToAccount(privateKey)
      const client = await createFarebox({
        wallet: account,
        baseUrl: server.baseUrl,
        journal: 'memory',
        verify: 'never',
      })
      const steps: Step[] = [
        serviceError('internal_error'),
        serviceError('insufficient_funds'),
        serviceError('invalid_payment_header'),
        foreign(502, 'x'),
        foreign(200, 'x'),
      ]
      for (const step of steps) {
        const from = server.received.length
        server.script(challenge(), step)
        const error = await call(client)
        const payment = server.received.slice(from).flatMap(({ payment: sent }) => sent ?? [])[0] ?? 'none'
        const shown = `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)}`
        expect(shown).not.toContain(privateKey.slice(2))
        expect(payment.length).toBeGreaterThan(100)
        expect(shown).not.toContain(payment.slice(0, 60))
      }
      expect(inspect(client, { depth: 20 })).not.toContain(privateKey.slice(2))
    })
  })
})

describe('a clock that is wrong by minutes', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  afterAll(() => sandbox.stop())
  /** Opens a client in a process with another clock. */
  async function openAt(minutes: number): Promise<Farebox> {
    shiftClock(minutes)
    const { baseUrl, rpcUrl, payer } = sandbox.info
    const wallet = walletFromPrivateKey(payer.privateKey)
    return await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget: { session: '1' } })
  }

  it.each([-3, 3])('a clock that is wrong by %i minutes pays as any other', async (minutes) => {
    const client = await openAt(minutes)
    const { payment } = await client.chat.create({ ...CHAT, max_tokens: 20 + minutes })
    expect(payment.receiptId).not.toBeNull()
  })

  it.each([
    [30, 'challenge_expired_locally', /clock is 30 min ahead of the server’s/],
    [-30, 'payment_expired', /clock is 30 min behind the server’s/],
  ])(
    'a clock that is wrong by %i minutes is named with the difference, and nothing is charged',
    async (minutes, code, words) => {
      const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
      const client = await openAt(minutes)
      const refused = client.chat.create({ ...CHAT, max_tokens: 30 }, { patienceMs: 0 })
      await expect(refused).rejects.toMatchObject({ code, money: 'none', message: expect.stringMatching(words) })
      expect(client.budgetLeft().session).toBe(1_000_000n)
      expect(await sandbox.chain.usdcBalance(sandbox.payer.address)).toBe(before)
    },
  )
})
