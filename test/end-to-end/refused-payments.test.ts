import { randomUUID } from 'node:crypto'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createPayingClient } from '../../infra/sandbox/paying-client.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../support/chain/rpc-proxy.ts'
import { expectErrorBody, expectNeverRetry } from '../support/http/expect-refusal.ts'
import { sendRaw } from '../support/http/raw-request.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  burnNonce,
  type CustomPayment,
  challengeOf,
  createPayer,
  type PermitTerms,
  paymentHeader,
  randomNonce,
  type SignedTerms,
  secondsFromNow,
  signCustomPayment,
  type TestPayer,
  valueAt,
  withValue,
} from '../support/payer/custom-payment.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'

const PATH = '/v1/audio/transcriptions'
const STRANGER = privateKeyToAccount(generatePrivateKey()).address
const PRICE = 5034n

/** Both APIs' way to the chain. The second one soon gives up waiting for an answer. */
let rpc: RpcProxy
let sandbox: TestSandbox
/** Holds USDC and has approved Permit2. */
let payer: TestPayer
/** Holds USDC, but no allowance and no gas. */
let sponsored: TestPayer
beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      rpc = await startRpcProxy(real.rpcUrl)
      return real
    },
    apis: 2,
    environmentOf: (name): Record<string, string> => ({
      ...(name === 'worker' ? {} : { RPC_URL: rpc.url }),
      RPC_TIMEOUT_MS: name === 'api-2' ? '500' : String(PATIENCE_MS),
      // One payment is spoilt in hundreds of ways and still good afterwards, however long that takes.
      CHALLENGE_LIFETIME_SECONDS: '3600',
      AUTHORIZATION_LIFETIME_SECONDS: '3600',
    }),
  })
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
  sponsored = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
})
afterAll(async () => {
  await sandbox.stop()
  await rpc.stop()
})

/** A fresh key with its challenge. */
async function challenge(idempotencyKey: string = randomUUID(), body?: Record<string, unknown>) {
  const answer = await sandbox.transcribe({ idempotencyKey, ...(body ? { body } : {}) })
  expect(answer.status).toBe(402)
  return { idempotencyKey, required: challengeOf(answer) }
}

function sendPayment(idempotencyKey: string, payment: unknown): Promise<Response> {
  return sandbox.transcribe({ idempotencyKey, headers: paymentHeader(payment) })
}

/** The same to the API that soon gives up waiting for the chain. */
function sendToImpatient(idempotencyKey: string, payment: unknown): Promise<Response> {
  return fetch(`${sandbox.info.baseUrls[1]}${PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...paymentHeader(payment) },
    body: JSON.stringify({ model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') }),
  })
}

async function expectPaid(answer: Response): Promise<void> {
  const body = await answer.text()
  expect({ status: answer.status, body }).toMatchObject({ status: 200 })
}

interface RefusalBody {
  code: string
  payment: string
  retry: string
  request_id: string
}

/** A 402 or 412 that tells the reason and offers a challenge to sign instead. */
async function expectFreshChallenge(answer: Response, code: string, status = 402): Promise<RefusalBody> {
  const text = await answer.text()
  expect({ status: answer.status, text }).toMatchObject({ status })
  const body = JSON.parse(text) as RefusalBody
  expect(body).toMatchObject({
    error: 'Payment Required',
    message: expect.any(String),
    price: { amount: '0.005034', currency: 'USDC', type: 'maximum' },
    paymentInfo: { x402Version: 2, scheme: 'upto', network: 'eip155:8453', asset: sandbox.info.usdc.toLowerCase() },
    code,
    payment: 'none',
    retry: 'new_payment',
  })
  const required = challengeOf(answer)
  expect(required).toMatchObject({
    x402Version: 2,
    error: code,
    resource: { url: `${sandbox.info.baseUrl}${PATH}` },
    accepts: [
      {
        scheme: 'upto',
        network: 'eip155:8453',
        amount: PRICE.toString(),
        asset: sandbox.info.usdc.toLowerCase(),
        payTo: sandbox.info.payTo.toLowerCase(),
        extra: { challenge: expect.stringMatching(/^[\w-]+\.[\w-]+$/) },
      },
    ],
  })
  expect(Date.parse(String(required.accepts[0]?.extra['expiresAt']))).toBeGreaterThan(Date.now())
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.headers.get('x-request-id')).toBe(body.request_id)
  return body
}

async function moneyAndWork() {
  const [calls, transfers, jobs] = await Promise.all([
    sandbox.upstreamCalls(),
    sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`),
    sandbox.sql('SELECT 1 FROM jobs'),
  ])
  return { calls: calls.length, transfers: transfers.length, jobs: jobs.length }
}

const malformed = (says: readonly string[] = []) => ({
  status: 400,
  code: 'invalid_payment_header',
  param: 'PAYMENT-SIGNATURE',
  says: ['PAYMENT-SIGNATURE', ...says],
})

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')

async function paid() {
  const { idempotencyKey, required } = await challenge()
  const nonce = randomNonce()
  const payment = await signCustomPayment(required, payer, { terms: { nonce } })
  await expectPaid(await sendPayment(idempotencyKey, payment))
  return { idempotencyKey, payment, nonce, after: await moneyAndWork() }
}

async function expectNetworkUnavailable(answer: Response): Promise<void> {
  const body = await expectErrorBody(answer, { status: 503, code: 'payment_network_unavailable', param: null })
  expect(body.error).toMatchObject({ type: 'server_error', payment: 'none', retry: 'same_request' })
  expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  expect(answer.headers.get('retry-after-ms')).toMatch(/^[1-9]\d*$/)
  expect(answer.headers.get('x-should-retry')).not.toBe('false')
  expect(answer.headers.get('payment-required')).toBeNull()
}

async function expectNothingHappenedSince(before: Awaited<ReturnType<typeof moneyAndWork>>): Promise<void> {
  expect(await moneyAndWork()).toEqual(before)
  expect((await fetch(`${sandbox.info.baseUrl}/healthz`)).status).toBe(200)
}

describe('a payment that is refused calls nothing and moves nothing', () => {
  let before: Awaited<ReturnType<typeof moneyAndWork>>
  beforeEach(async () => {
    before = await moneyAndWork()
  })
  afterEach(() => expectNothingHappenedSince(before))

  describe('malformed: 400 invalid_payment_header', () => {
    let key: string
    /** Perfectly valid; every case spoils one thing in it. */
    let payment: CustomPayment
    beforeAll(async () => {
      const { idempotencyKey, required } = await challenge()
      key = idempotencyKey
      // A payer of its own: its permit replaces whatever allowance there was.
      const ownPayer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: PRICE, approved: false })
      payment = await signCustomPayment(required, ownPayer, { permit: {} })
    })

    test.each([
      ['empty', ''],
      ['garbage', '!!!'],
      ['not base64', 'PAYMENT, please'],
      ['bare JSON', '{"x402Version":2}'],
      ['base64 of garbage', base64(Buffer.from([0xff, 0x00, 0x80]))],
      ['base64 of text', base64('hello')],
      ['base64 of cut JSON', base64('{"x402Version":2,')],
      ['null', base64('null')],
      ['an array', base64('[]')],
      ['a string', base64('"payment"')],
      ['an empty object', base64('{}')],
      ['__proto__', base64('{"__proto__":{"x402Version":2}}')],
      ['deep nesting', base64('['.repeat(8000))],
      ['12 KB of nothing', 'A'.repeat(12_000)],
    ])('a header that is %s', async (_, header) => {
      const answer = await sandbox.transcribe({ idempotencyKey: key, headers: { 'payment-signature': header } })
      await expectNeverRetry(answer, malformed())
    })
    test('a header in the URL-safe alphabet', async () => {
      const header = Buffer.from(JSON.stringify({ ...payment, note: '~~~???>>>' })).toString('base64url')
      expect(header).toMatch(/[-_]/)
      const answer = await sandbox.transcribe({ idempotencyKey: key, headers: { 'payment-signature': header } })
      await expectNeverRetry(answer, malformed())
    })
    test('a header sent twice is a duplicate_header', async () => {
      const { 'payment-signature': header = '' } = paymentHeader(payment)
      const { answer } = await sendRaw(sandbox.info.baseUrl, {
        path: PATH,
        headers: [
          ['x-idempotency-key', key],
          ['content-type', 'application/json'],
          ['content-length', '1000000'],
          ['payment-signature', header],
          ['Payment-Signature', header],
        ],
      })
      await expectNeverRetry(answer, { status: 400, code: 'duplicate_header', param: 'payment-signature' })
    })
    test('a header of 20 KB is refused without reading on', async () => {
      const { answer } = await sendRaw(sandbox.info.baseUrl, {
        path: PATH,
        headers: [
          ['x-idempotency-key', key],
          ['payment-signature', 'A'.repeat(20_000)],
        ],
      })
      await expectNeverRetry(answer, { status: 400, code: 'headers_too_large', param: null })
    })

    test.each([1, 3, '2', null, undefined, 2.5])('x402Version %j', async (version) => {
      await expectNeverRetry(
        await sendPayment(key, withValue(payment, 'x402Version', version)),
        malformed(['x402Version']),
      )
    })

    const wrongAmounts = [
      '',
      ' 1',
      '-1',
      '+1',
      '1.0',
      '1e3',
      '0x10',
      '0X10',
      '01',
      '1_000',
      '١',
      (2n ** 256n).toString(),
      '9'.repeat(200),
      5034,
      null,
      [],
      {},
      true,
    ]
    const amounts = ['permitted.amount', 'nonce', 'deadline', 'witness.validAfter']
    test.each(amounts.flatMap((path) => [undefined, ...wrongAmounts].map((value) => [path, value] as const)))(
      'permit2Authorization.%s of %j',
      async (path, value) => {
        const changed = withValue(payment, `payload.permit2Authorization.${path}`, value)
        await expectNeverRetry(await sendPayment(key, changed), malformed([path]))
      },
    )
    const address = '833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
    const wrongAddresses = [
      undefined,
      '',
      address,
      `0X${address}`,
      `0x${address}00`,
      `0x${address.slice(2)}`,
      `0x${'g'.repeat(40)}`,
      ` 0x${address}`,
      'usdc.eth',
      5,
      null,
      [],
      {},
    ]
    const addresses = ['from', 'permitted.token', 'spender', 'witness.to', 'witness.facilitator']
    test.each(addresses.flatMap((path) => wrongAddresses.map((value) => [path, value] as const)))(
      'permit2Authorization.%s of %j',
      async (path, value) => {
        const changed = withValue(payment, `payload.permit2Authorization.${path}`, value)
        await expectNeverRetry(await sendPayment(key, changed), malformed([path]))
      },
    )
    test.each([undefined, '', '0x', '0x1', 'ab', `0X${'ab'.repeat(65)}`, `0x${'zz'.repeat(65)}`, 5, null, {}])(
      'payload.signature of %j',
      async (value) => {
        await expectNeverRetry(
          await sendPayment(key, withValue(payment, 'payload.signature', value)),
          malformed(['signature']),
        )
      },
    )
    test.each([
      'payload',
      'payload.permit2Authorization',
      'payload.permit2Authorization.permitted',
      'payload.permit2Authorization.witness',
      'accepted',
    ])('%s missing, null, an array or text', async (path) => {
      for (const value of [undefined, null, [], 'x'])
        await expectNeverRetry(await sendPayment(key, withValue(payment, path, value)), malformed([path]))
    })
    test.each(['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds'])(
      'accepted.%s missing or of another type',
      async (name) => {
        for (const value of [undefined, null, [], true])
          await expectNeverRetry(
            await sendPayment(key, withValue(payment, `accepted.${name}`, value)),
            malformed([name]),
          )
      },
    )
    test('a member that the signature does not cover', async () => {
      const changed = withValue(payment, 'payload.permit2Authorization.memo', 'x')
      await expectNeverRetry(await sendPayment(key, changed), malformed())
    })
    const info = 'extensions.eip2612GasSponsoring.info'
    const validSignature = `0x${'11'.repeat(64)}1b`
    test.each([
      ['from', [undefined, null, '0x12', 5]],
      ['asset', [undefined, null, `0X${address}`]],
      ['spender', [undefined, null, '']],
      ['amount', [undefined, null, 5034, '-1', '1e3', '0x10', (2n ** 256n).toString()]],
      ['nonce', [undefined, null, 0, '-1', '0x0']],
      ['deadline', [undefined, null, 5, '1e9']],
      [
        'signature',
        [
          null,
          5,
          '',
          '0x',
          '0x12',
          validSignature.slice(0, -2),
          `${validSignature}00`,
          `${validSignature.slice(0, -2)}05`,
          `0x${'00'.repeat(64)}1b`,
          `0x${'ff'.repeat(64)}1b`,
        ],
      ],
    ] as const)('the gas-sponsoring permit’s %s missing or malformed', async (name, values) => {
      for (const value of values)
        await expectNeverRetry(await sendPayment(key, withValue(payment, `${info}.${name}`, value)), malformed([name]))
    })
    test('and after all that the unspoilt payment still is good', async () => {
      await expectPaid(await sendPayment(key, payment))
      before = await moneyAndWork()
    })
  })

  describe('for other terms than the challenge’s: 402', () => {
    type Change = {
      terms?: Partial<SignedTerms>
      accepted?: Record<string, unknown>
    }
    const otherToken = '0xd9aAEc86B65D86f6A7B5B1b0c42FFA531710b6CA'
    test.each<[string, string, Change]>([
      ['scheme', 'payment_scheme_mismatch', { accepted: { scheme: 'exact' } }],
      ['network', 'payment_network_mismatch', { accepted: { network: 'eip155:1' } }],
      [
        'network of another kind',
        'payment_network_mismatch',
        { accepted: { network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' } },
      ],
      ['asset, accepted', 'payment_asset_mismatch', { accepted: { asset: otherToken } }],
      ['asset, signed', 'payment_asset_mismatch', { terms: { token: otherToken } }],
      ['asset, both', 'payment_asset_mismatch', { terms: { token: otherToken }, accepted: { asset: otherToken } }],
      ['recipient, accepted', 'payment_recipient_mismatch', { accepted: { payTo: STRANGER } }],
      ['recipient, signed', 'payment_recipient_mismatch', { terms: { to: STRANGER } }],
      ['recipient, both', 'payment_recipient_mismatch', { terms: { to: STRANGER }, accepted: { payTo: STRANGER } }],
      ['spender', 'payment_spender_mismatch', { terms: { spender: STRANGER } }],
      ['facilitator', 'payment_facilitator_mismatch', { terms: { facilitator: STRANGER } }],
      ['amount, accepted smaller', 'payment_amount_mismatch', { accepted: { amount: '5033' } }],
      ['amount, accepted larger', 'payment_amount_mismatch', { accepted: { amount: '5035' } }],
      ['amount, accepted in hex', 'payment_amount_mismatch', { accepted: { amount: '0x13aa' } }],
      ['amount, accepted empty', 'payment_amount_mismatch', { accepted: { amount: '' } }],
      ['amount, signed smaller', 'payment_amount_mismatch', { terms: { amount: 5033n } }],
      ['amount, signed larger', 'payment_amount_mismatch', { terms: { amount: 5035n } }],
      ['amount, signed zero', 'payment_amount_mismatch', { terms: { amount: 0n } }],
      ['amount, both smaller', 'payment_amount_mismatch', { terms: { amount: 1n }, accepted: { amount: '1' } }],
      ['amount, both larger', 'payment_amount_mismatch', { terms: { amount: 5035n }, accepted: { amount: '5035' } }],
    ])('another %s is %s', async (_, code, { terms = {}, accepted = {} }) => {
      const { idempotencyKey, required } = await challenge()
      let payment = await signCustomPayment(required, payer, { terms })
      for (const [name, value] of Object.entries(accepted)) payment = withValue(payment, `accepted.${name}`, value)
      await expectFreshChallenge(await sendPayment(idempotencyKey, payment), code)
    })

    const token = 'accepted.extra.challenge'
    test.each<[string, (genuine: string) => unknown]>([
      ['missing', () => undefined],
      ['null', () => null],
      ['an object', () => ({})],
      ['empty', () => ''],
      ['without its tag', (genuine) => genuine.split('.')[0]],
      ['with another tag', (genuine) => `${genuine.split('.')[0]}.${'A'.repeat(43)}`],
      ['with another body', (genuine) => `e30.${genuine.split('.')[1]}`],
      ['with more behind it', (genuine) => `${genuine}.x`],
      ['of another secret', () => 'eyJrIjoiIiwiZCI6IiIsIm0iOiIxIiwiZSI6OTk5OTk5OTk5OX0.AAAA'],
    ])('a challenge token that is %s is payment_terms_mismatch', async (_, forge) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const forged = withValue(payment, token, forge(String(valueAt(payment, token))))
      await expectFreshChallenge(await sendPayment(idempotencyKey, forged), 'payment_terms_mismatch')
    })
    test('no extra at all is payment_terms_mismatch', async () => {
      const { idempotencyKey, required } = await challenge()
      const payment = withValue(await signCustomPayment(required, payer), 'accepted.extra', undefined)
      await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_terms_mismatch')
    })
  })

  describe('signed for another request: 409 challenge_mismatch', () => {
    const mismatch = { status: 409, code: 'challenge_mismatch', param: null, says: ['different request'] }
    test('for body A, sent with body B', async () => {
      const audio_base64 = sandbox.sample.toString('base64')
      const { required } = await challenge(randomUUID(), {
        model: 'speechvendor/scribe-v2',
        audio_base64,
        diarize: true,
      })
      const { idempotencyKey } = await challenge()
      await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, payer)), mismatch)
    })
    test('for key A, sent with key B', async () => {
      const { required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      await expectNeverRetry(await sendPayment(randomUUID(), payment), mismatch)
    })
  })

  describe('not signed by its payer: 402 payment_signature_invalid', () => {
    const signature = 'payload.signature'
    test.each<[string, (genuine: string) => string]>([
      ['one bit of r changed', (genuine) => `0x${(Number(`0x${genuine[2]}`) ^ 1).toString(16)}${genuine.slice(3)}`],
      ['another recovery bit', (genuine) => genuine.slice(0, -2) + (genuine.endsWith('1b') ? '1c' : '1b')],
      ['an impossible recovery byte', (genuine) => `${genuine.slice(0, -2)}ff`],
      ['a byte missing', (genuine) => genuine.slice(0, -2)],
      ['a byte too many', (genuine) => `${genuine}00`],
      ['only zeros', () => `0x${'00'.repeat(65)}`],
      ['only ones', () => `0x${'ff'.repeat(65)}`],
      ['one byte', () => '0x00'],
      ['2,000 bytes', () => `0x${'ab'.repeat(2000)}`],
    ])('%s', async (_, tamper) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const tampered = withValue(payment, signature, tamper(String(valueAt(payment, signature))))
      await expectFreshChallenge(await sendPayment(idempotencyKey, tampered), 'payment_signature_invalid')
    })
    test('signed by another key in the payer’s name', async () => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, sponsored, { terms: { payer: payer.account.address } })
      await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_signature_invalid')
    })
    test.each([
      ['nonce', randomNonce().toString()],
      ['deadline', secondsFromNow(100_000).toString()],
      ['witness.validAfter', '1'],
      ['from', STRANGER],
    ])('%s changed after signing', async (path, value) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const changed = withValue(payment, `payload.permit2Authorization.${path}`, value)
      await expectFreshChallenge(await sendPayment(idempotencyKey, changed), 'payment_signature_invalid')
    })
  })

  test.each<[string, string, () => Partial<SignedTerms>]>([
    ['a deadline in the past', 'payment_expired', () => ({ deadline: secondsFromNow(-1) })],
    ['a deadline of zero', 'payment_expired', () => ({ deadline: 0n })],
    ['a deadline too near to finish the work', 'payment_expired', () => ({ deadline: secondsFromNow(300) })],
    ['validAfter in the future', 'payment_not_yet_valid', () => ({ validAfter: secondsFromNow(3600) })],
    ['the largest validAfter', 'payment_not_yet_valid', () => ({ validAfter: 2n ** 256n - 1n })],
  ])('%s: 402 %s', async (_, code, terms) => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer, { terms: terms() })
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), code)
  })

  test.each([
    ['no USDC', 0n],
    ['one atomic unit too little', PRICE - 1n],
  ])('a payer with %s: 402 insufficient_funds', async (_, usdcAtomic) => {
    const poor = await createPayer(sandbox.info.rpcUrl, { usdcAtomic, approved: true })
    const { idempotencyKey, required } = await challenge()
    const answer = await sendPayment(idempotencyKey, await signCustomPayment(required, poor))
    await expectFreshChallenge(answer, 'insufficient_funds')
  })
  test('a payer without allowance and without gas sponsoring: 412 with a challenge', async () => {
    const { idempotencyKey, required } = await challenge()
    const answer = await sendPayment(idempotencyKey, await signCustomPayment(required, sponsored))
    await expectFreshChallenge(answer, 'permit2_allowance_required', 412)
  })
  test('a payer that only echoes the gas-sponsoring declaration has signed no permit: 412', async () => {
    const { idempotencyKey, required } = await challenge()
    const payment = { ...(await signCustomPayment(required, sponsored)), extensions: required.extensions }
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'permit2_allowance_required', 412)
  })
  test.each<[string, Partial<PermitTerms>, string]>([
    ['owner', { owner: STRANGER }, 'payment_rejected'],
    ['spender', { spender: STRANGER }, 'payment_rejected'],
    ['amount that is too small', { amount: PRICE - 1n }, 'payment_rejected'],
    ['amount that is too large', { amount: PRICE + 1n }, 'payment_rejected'],
    ['nonce', { nonce: 7n }, 'payment_rejected'],
    ['deadline in the past', { deadline: 1n }, 'payment_expired'],
  ])('a gas-sponsoring permit of another %s: 402', async (_, permit, code) => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, sponsored, { permit })
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), code)
  })
  test('a gas-sponsoring permit of another asset, or signed by somebody else: 402', async () => {
    const { idempotencyKey, required } = await challenge()
    const info = 'extensions.eip2612GasSponsoring.info'
    const payment = await signCustomPayment(required, sponsored, { permit: {} })
    const foreign = await signCustomPayment(required, payer, { permit: { owner: sponsored.account.address } })
    for (const changed of [
      withValue(payment, `${info}.asset`, STRANGER),
      withValue(payment, `${info}.signature`, valueAt(foreign, `${info}.signature`)),
    ])
      await expectFreshChallenge(await sendPayment(idempotencyKey, changed), 'payment_rejected')
  })
  test('a nonce that the payer has burnt on chain: 402 payment_nonce_used', async () => {
    const { idempotencyKey, required } = await challenge()
    const nonce = randomNonce()
    const payment = await signCustomPayment(required, payer, { terms: { nonce } })
    await burnNonce(payer, nonce)
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_nonce_used')
  })
})

describe('a payment that was taken', () => {
  test('pays for no other key: 409 authorization_already_used', async () => {
    const { payment, nonce, after } = await paid()
    const { idempotencyKey, required } = await challenge()
    // The token is not covered by the signature, so the old signature can carry the new one.
    const moved = { ...payment, accepted: required.accepts[0] }
    const again = await signCustomPayment(required, payer, { terms: { nonce } })
    for (const reused of [moved, again])
      await expectNeverRetry(await sendPayment(idempotencyKey, reused), {
        status: 409,
        code: 'authorization_already_used',
        param: null,
      })
    expect(await moneyAndWork()).toEqual(after)
  })
  test('keeps its key for its payer: another payer gets 409 idempotency_key_reused', async () => {
    const { idempotencyKey, after } = await paid()
    const { required } = await challenge(idempotencyKey)
    const intruder = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
    await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, intruder)), {
      status: 409,
      code: 'idempotency_key_reused',
      param: null,
    })
    expect(await moneyAndWork()).toEqual(after)
  })
  test('is replayed to its payer only: a stolen or unsigned copy gets no result', async () => {
    const { idempotencyKey, payment, after } = await paid()
    const answer = await sendPayment(idempotencyKey, withValue(payment, 'payload.signature', `0x${'11'.repeat(64)}1b`))
    await expectFreshChallenge(answer, 'payment_signature_invalid')
    expect((await sandbox.transcribe({ idempotencyKey })).status).toBe(402)
    expect(await moneyAndWork()).toEqual(after)
  })
  test('is refused in one form and then signed afresh from the refusal’s own challenge', async () => {
    const { idempotencyKey, required } = await challenge()
    const expired = await signCustomPayment(required, payer, { terms: { deadline: secondsFromNow(-1) } })
    const refusal = await sendPayment(idempotencyKey, expired)
    expect(refusal.status).toBe(402)
    await expectPaid(await sendPayment(idempotencyKey, await signCustomPayment(challengeOf(refusal), payer)))
  })
  test('may come from a payer with gas sponsoring signed by hand, or by the official client', async () => {
    const { idempotencyKey, required } = await challenge()
    await expectPaid(await sendPayment(idempotencyKey, await signCustomPayment(required, sponsored, { permit: {} })))
    const official = createPayingClient({ ...sandbox.info, privateKey: sandbox.info.payer.privateKey })
    const key = randomUUID()
    const headers = await official.sign(await sandbox.transcribe({ idempotencyKey: key }))
    await expectPaid(await sandbox.transcribe({ idempotencyKey: key, headers }))
  })
})

describe('while the chain cannot be asked', () => {
  afterEach(() => rpc.setFault(null))

  const failing: RpcFault = { kind: 'status', status: 500 }
  const faults: [string, RpcFault][] = [
    ['HTTP 500', failing],
    ['rate limiting', { kind: 'status', status: 429 }],
    ['no JSON', { kind: 'html' }],
    ['internal error', { kind: 'error', code: -32_603, message: 'Internal error' }],
    ['header not found', { kind: 'error', code: -32_000, message: 'header not found' }],
    ['reset', { kind: 'reset' }],
    ['hanging', { kind: 'hang' }],
  ]
  test.each(faults)('%s: a good payment gets 503 and is good once the chain is back', async (_, fault) => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer)
    const before = await moneyAndWork()
    rpc.setFault(fault)
    const sendMeanwhile = fault.kind === 'hang' ? sendToImpatient : sendPayment
    await expectNetworkUnavailable(await sendMeanwhile(idempotencyKey, payment))
    expect(await moneyAndWork()).toEqual(before)
    rpc.setFault(null)
    await expectPaid(await sendPayment(idempotencyKey, payment))
    expect(await moneyAndWork()).toEqual({
      calls: before.calls + 1,
      transfers: before.transfers + 1,
      jobs: before.jobs + 1,
    })
  })
  test('a refusal whose reason can no longer be read is a 503 as well', async () => {
    const { idempotencyKey, required } = await challenge()
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 0n, approved: false })
    const payment = await signCustomPayment(required, payer)
    rpc.setFaultFor(1, Number.POSITIVE_INFINITY, failing)
    await expectNetworkUnavailable(await sendPayment(idempotencyKey, payment))
    rpc.setFault(null)
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'insufficient_funds')
  })
  test('challenges are given and malformed payments refused all the same', async () => {
    rpc.setFault(failing)
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer)
    const malformed = await sendPayment(idempotencyKey, withValue(payment, 'x402Version', 1))
    await expectNeverRetry(malformed, { status: 400, code: 'invalid_payment_header', param: 'PAYMENT-SIGNATURE' })
    const unsigned = await sendPayment(idempotencyKey, withValue(payment, 'payload.signature', `0x${'11'.repeat(65)}`))
    await expectFreshChallenge(unsigned, 'payment_signature_invalid')
  })
})

test('no refusal brought a process down', async () => {
  const alive = new Promise((resolve) => setImmediate(resolve, 'alive'))
  expect(await Promise.race([sandbox.crashed, alive])).toBe('alive')
})
