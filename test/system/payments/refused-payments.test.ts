import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { x402UptoPermit2ProxyABI } from '@x402/evm'
import pg from 'pg'
import { decodeFunctionData, type TypedDataDefinition, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { main as payers } from '../../../infra/commands/payers/main.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { expectErrorBody, expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { sendRaw } from '../../support/http/raw-request.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import {
  type CustomPayment,
  challengeOf,
  paymentHeader,
  type SignedTerms,
  signCustomPayment,
  valueAt,
  withValue,
} from '../../support/payer/custom-payment.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { randomNonce, secondsFromNow } from '../../support/payer/sign-authorization.ts'
import type { PERMIT_TYPES, PermitTerms } from '../../support/payer/sign-permit.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const PATH = '/v1/audio/transcriptions'
const STRANGER = privateKeyToAccount(generatePrivateKey()).address
const PRICE = 5034n
/** Injects faults between both APIs and the chain. The second API has a short timeout. */
let rpc: RpcProxy
/** Where the list on chain is that one API asks. */
const ORACLE = `0x${'3c'.repeat(20)}` as const
let sandbox: TestSandbox
/** A payer that has USDC and has approved Permit2. */
let payer: Payer
/** A payer that has USDC, but neither an allowance nor gas. */
let sponsored: Payer
beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      rpc = await startRpcProxy(real.rpcUrl)
      await setOracleAnswer(real.rpcUrl, 0)
      return real
    },
    apis: 2,
    environmentOf: (name): Record<string, string> => ({
      ...(name === 'worker' ? {} : { RPC_URL: rpc.url }),
      RPC_TIMEOUT_MS: name === 'api-2' ? '500' : String(PATIENCE_MS),
      ...(name === 'api-2' ? { PAYER_SCREENING_ORACLE: ORACLE } : {}),
      // One payment is corrupted in hundreds of ways and must still be valid afterwards.
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
/** Lets the list on chain answer 0 or 1 about every address. */
async function setOracleAnswer(rpcUrl: string, word: 0 | 1): Promise<void> {
  await callRpc(rpcUrl, 'anvil_setCode', [ORACLE, `0x600${word}60005260206000f3`])
}
/** Returns a fresh key with its challenge. */
async function challenge(idempotencyKey: string = randomUUID(), body?: Record<string, unknown>) {
  const answer = await sandbox.transcribe({ idempotencyKey, ...(body ? { body } : {}) })
  expect(answer.status).toBe(402)
  return { idempotencyKey, required: challengeOf(answer) }
}
function sendPayment(idempotencyKey: string, payment: unknown): Promise<Response> {
  return sandbox.transcribe({ idempotencyKey, headers: paymentHeader(payment) })
}
function transcriptionBody(): Record<string, unknown> {
  return { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') }
}
/** Asks for a chat completion of up to this many tokens. */
const askChat = (max_tokens: number, idempotencyKey: string, headers: Record<string, string> = {}) =>
  fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
    body: JSON.stringify({
      model: 'textmodel-3.5-flash-lite',
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens,
    }),
  })
/** Pays for a chat completion with a signature that is valid for `seconds`. */
const payForChat = async (max_tokens: number, seconds: number) => {
  const idempotencyKey = randomUUID()
  const required = challengeOf(await askChat(max_tokens, idempotencyKey))
  const payment = await signCustomPayment(required, payer, { terms: { deadline: secondsFromNow(seconds) } })
  const answer = await askChat(max_tokens, idempotencyKey, paymentHeader(payment))
  return [answer.status, await answer.json()] as const
}
const expiredUnless = (seconds: number) => [
  402,
  { code: 'payment_expired', message: `The payment must stay valid for at least ${seconds} seconds.` },
]
/** Sends the payment to the API with a short timeout for the chain, which asks a list on chain about each payer. */
function sendToImpatientApi(idempotencyKey: string, payment: unknown): Promise<Response> {
  return fetch(`${sandbox.info.baseUrls[1]}${PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...paymentHeader(payment) },
    body: JSON.stringify(transcriptionBody()),
  })
}
async function expectPaid(answer: Response): Promise<void> {
  const body = await answer.text()
  expect(`${answer.status} ${body}`).toMatch(/^200/)
}
interface RefusalBody {
  code: string
  payment: string
  retry: string
  request_id: string
}
/** Expects a 402 or 412 that names the reason and carries a new challenge. */
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
        extra: { challenge: expect.stringMatching(/^[\w-]+\.[\w-]{43}$/) },
      },
    ],
  })
  expect(Date.parse(String(required.accepts[0]?.extra['expiresAt']))).toBeGreaterThan(Date.now())
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.headers.get('x-request-id')).toBe(body.request_id)
  return body
}
function withoutRandomPart(token: string): string {
  const [body = '', tag = ''] = token.split('.')
  const json = Buffer.from(body, 'base64url')
    .toString()
    .replace(/^\{"r":"[^"]+",/, '{')
  return `${Buffer.from(json).toString('base64url')}.${tag}`
}
/** Counts the calls that ask the chain about a payment. */
function countReads(): number {
  return rpc.calls.filter((method) => method === 'eth_call' || method === 'eth_getCode').length
}
async function countMoneyAndWork() {
  const [calls, transfers, jobs] = await Promise.all([
    sandbox.upstreamCalls(),
    sandbox.chain.transfersTo(sandbox.info.payTo),
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
/** Reads the newest settlement from the chain, as the payload of a payment. */
async function readSettledPayment() {
  const [newest] = (await sandbox.chain.transfersTo(sandbox.info.payTo)).toReversed()
  const { input } = await sandbox.chain.client.getTransaction({ hash: newest?.transactionHash ?? '0x' })
  const batch = decodeFunctionData({ abi: settlementContractAbi, data: input })
  const [settlements] = batch.functionName === 'settleMany' ? batch.args : [[]]
  const [only, ...others] = settlements
  if (!only || others.length > 0) throw new Error(`a batch of ${settlements.length}`)
  const { functionName, args } = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data: only.call })
  if (functionName !== 'settle') throw new Error(`settled by ${functionName}`)
  const [permit, , owner, witness, signature] = args
  return {
    signature,
    permit2Authorization: {
      from: owner,
      permitted: { token: permit.permitted.token, amount: permit.permitted.amount.toString() },
      spender: DEVNET_ADDRESSES.uptoProxy,
      nonce: permit.nonce.toString(),
      deadline: permit.deadline.toString(),
      witness: { to: witness.to, facilitator: witness.facilitator, validAfter: witness.validAfter.toString() },
    },
  }
}
async function makePaidCall() {
  const { idempotencyKey, required } = await challenge()
  const nonce = randomNonce()
  const payment = await signCustomPayment(required, payer, { terms: { nonce } })
  await expectPaid(await sendPayment(idempotencyKey, payment))
  return { idempotencyKey, payment, nonce, after: await countMoneyAndWork() }
}
async function expectNetworkUnavailable(answer: Response, code = 'payment_network_unavailable'): Promise<void> {
  const body = await expectErrorBody(answer, { status: 503, code, param: null })
  expect(body.error).toMatchObject({ type: 'server_error', payment: 'none', retry: 'same_request' })
  expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  expect(answer.headers.get('retry-after-ms')).toMatch(/^[1-9]\d*$/)
  expect(answer.headers.get('x-should-retry')).not.toBe('false')
  expect(answer.headers.get('payment-required')).toBeNull()
}
async function setBaseFee(wei: bigint): Promise<void> {
  await callRpc(sandbox.info.rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(wei)])
  // The API reads fees once in two seconds.
  await delay(2500)
}
async function expectNothingHappenedSince(before: Awaited<ReturnType<typeof countMoneyAndWork>>): Promise<void> {
  expect(await countMoneyAndWork()).toEqual(before)
  expect((await fetch(`${sandbox.info.baseUrl}/healthz`)).status).toBe(200)
}
/** Removes everything that the ledger knows of a call, as a restore from an older backup does. */
async function forgetCall(idempotencyKey: string): Promise<void> {
  await sandbox.sql(`DO $$ DECLARE lost uuid := (SELECT id FROM jobs WHERE idempotency_key = '${idempotencyKey}'); BEGIN
    SET LOCAL session_replication_role = replica;
    DELETE FROM receipts WHERE job_id = lost;
    DELETE FROM settlement_transactions WHERE settlement_id IN (SELECT id FROM settlements WHERE job_id = lost);
    DELETE FROM settlements WHERE job_id = lost;
    DELETE FROM upstream_attempts WHERE job_id = lost;
    DELETE FROM authorizations WHERE job_id = lost;
    DELETE FROM idempotency_keys WHERE idempotency_key = '${idempotencyKey}';
    DELETE FROM jobs WHERE id = lost; END $$`)
}
test('no refusal has crashed a process', async () => {
  const alive = new Promise((resolve) => setImmediate(resolve, 'alive'))
  expect(await Promise.race([sandbox.crashed, alive])).toBe('alive')
})

describe('a refused payment calls no provider and moves no money', () => {
  let before: Awaited<ReturnType<typeof countMoneyAndWork>>
  beforeEach(async () => {
    before = await countMoneyAndWork()
  })
  afterEach(() => expectNothingHappenedSince(before))

  describe('malformed: 400 invalid_payment_header [spec A7]', () => {
    let key: string
    /** A valid payment; each case corrupts one part of it. */
    let payment: CustomPayment
    beforeAll(async () => {
      const { idempotencyKey, required } = await challenge()
      key = idempotencyKey
      // A separate payer, because its permit replaces any allowance.
      const ownPayer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: PRICE, approved: false })
      payment = await signCustomPayment(required, ownPayer, { permit: {} })
    })

    test.each([
      ['empty', ''],
      ['garbage', '!!!'],
      ['not Base64', 'PAYMENT, please'],
      ['bare JSON', '{"x402Version":2}'],
      ['Base64 of garbage', base64(Buffer.from([0xff, 0x00, 0x80]))],
      ['Base64 of text', base64('hello')],
      ['Base64 of truncated JSON', base64('{"x402Version":2,')],
      ['null', base64('null')],
      ['an array', base64('[]')],
      ['a string', base64('"payment"')],
      ['an empty object', base64('{}')],
      ['__proto__', base64('{"__proto__":{"x402Version":2}}')],
      ['deep nesting', base64('['.repeat(8000))],
      ['12 KB of padding', 'A'.repeat(12_000)],
    ])('answers 400 to a payment header that is %s', async (_, header) => {
      const answer = await sandbox.transcribe({ idempotencyKey: key, headers: { 'payment-signature': header } })
      await expectNeverRetry(answer, malformed())
    })
    test('answers 400 to a payment header in the URL-safe alphabet', async () => {
      const header = Buffer.from(JSON.stringify({ ...payment, note: '~~~???>>>' })).toString('base64url')
      expect(header).toMatch(/[-_]/)
      const answer = await sandbox.transcribe({ idempotencyKey: key, headers: { 'payment-signature': header } })
      await expectNeverRetry(answer, malformed())
    })
    test('answers 400 duplicate_header to a payment header that is sent twice', async () => {
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
    test('answers 400 headers_too_large to a payment header of 20 KB', async () => {
      const { answer } = await sendRaw(sandbox.info.baseUrl, {
        path: PATH,
        headers: [
          ['x-idempotency-key', key],
          ['payment-signature', 'A'.repeat(20_000)],
        ],
      })
      await expectNeverRetry(answer, { status: 400, code: 'headers_too_large', param: null })
    })

    test.each([1, 3, '2', null, undefined, 2.5])('answers 400 to x402Version %j [spec V4]', async (version) => {
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
      'answers 400 to permit2Authorization.%s of %j',
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
      'answers 400 to permit2Authorization.%s of %j',
      async (path, value) => {
        const changed = withValue(payment, `payload.permit2Authorization.${path}`, value)
        await expectNeverRetry(await sendPayment(key, changed), malformed([path]))
      },
    )
    test.each([undefined, '', '0x', '0x1', 'ab', `0X${'ab'.repeat(65)}`, `0x${'zz'.repeat(65)}`, 5, null, {}])(
      'answers 400 to payload.signature of %j',
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
    ])('answers 400 to %s that is missing, null, an array or a string', async (path) => {
      for (const value of [undefined, null, [], 'x'])
        await expectNeverRetry(await sendPayment(key, withValue(payment, path, value)), malformed([path]))
    })
    test.each(['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds'])(
      'answers 400 to accepted.%s that is missing or of another type',
      async (name) => {
        for (const value of [undefined, null, [], true])
          await expectNeverRetry(
            await sendPayment(key, withValue(payment, `accepted.${name}`, value)),
            malformed([name]),
          )
      },
    )
    test('answers 400 to a member that the signature does not cover', async () => {
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
        [null, 5, '', '0x', `${validSignature.slice(0, -2)}05`, `0x${'00'.repeat(64)}1b`, `0x${'ff'.repeat(64)}1b`],
      ],
    ] as const)('answers 400 to a gas-sponsoring permit whose %s is missing or malformed', async (name, values) => {
      for (const value of values)
        await expectNeverRetry(await sendPayment(key, withValue(payment, `${info}.${name}`, value)), malformed([name]))
    })
    test('accepts the original payment after all the corrupted ones', async () => {
      await expectPaid(await sendPayment(key, payment))
      before = await countMoneyAndWork()
    })
  })

  describe('other terms than the challenge’s: 402 [spec A2a, O15]', () => {
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
      ['asset (accepted)', 'payment_asset_mismatch', { accepted: { asset: otherToken } }],
      ['asset (signed)', 'payment_asset_mismatch', { terms: { token: otherToken } }],
      ['asset (both)', 'payment_asset_mismatch', { terms: { token: otherToken }, accepted: { asset: otherToken } }],
      ['recipient (accepted)', 'payment_recipient_mismatch', { accepted: { payTo: STRANGER } }],
      ['recipient (signed)', 'payment_recipient_mismatch', { terms: { to: STRANGER } }],
      ['recipient (both)', 'payment_recipient_mismatch', { terms: { to: STRANGER }, accepted: { payTo: STRANGER } }],
      ['spender', 'payment_spender_mismatch', { terms: { spender: STRANGER } }],
      ['facilitator', 'payment_facilitator_mismatch', { terms: { facilitator: STRANGER } }],
      ['amount (accepted, smaller)', 'payment_amount_mismatch', { accepted: { amount: '5033' } }],
      ['amount (accepted, larger)', 'payment_amount_mismatch', { accepted: { amount: '5035' } }],
      ['amount (accepted, in hex)', 'payment_amount_mismatch', { accepted: { amount: '0x13aa' } }],
      ['amount (accepted, empty)', 'payment_amount_mismatch', { accepted: { amount: '' } }],
      ['amount (signed, smaller)', 'payment_amount_mismatch', { terms: { amount: 5033n } }],
      ['amount (signed, larger)', 'payment_amount_mismatch', { terms: { amount: 5035n } }],
      ['amount (signed, zero)', 'payment_amount_mismatch', { terms: { amount: 0n } }],
      ['amount (both, smaller)', 'payment_amount_mismatch', { terms: { amount: 1n }, accepted: { amount: '1' } }],
      ['amount (both, larger)', 'payment_amount_mismatch', { terms: { amount: 5035n }, accepted: { amount: '5035' } }],
    ])('answers 402 to another %s than the challenge’s: %s', async (_, code, { terms = {}, accepted = {} }) => {
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
      ['with another tag', (genuine) => genuine.replace(/[^.]+$/, 'A'.repeat(43))],
      ['with another body', (genuine) => genuine.replace(/^[^.]+/, 'e30')],
      ['with a body but for its random part', (genuine) => withoutRandomPart(genuine)],
      ['with an additional part', (genuine) => `${genuine}.x`],
      ['signed with another secret', () => 'eyJrIjoiIiwiZCI6IiIsIm0iOiIxIiwiZSI6OTk5OTk5OTk5OX0.AAAA'],
    ])('answers 402 payment_terms_mismatch to a challenge token that is %s', async (_, forge) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const forged = withValue(payment, token, forge(String(valueAt(payment, token))))
      await expectFreshChallenge(await sendPayment(idempotencyKey, forged), 'payment_terms_mismatch')
    })
    test('answers 402 payment_terms_mismatch to terms without extra', async () => {
      const { idempotencyKey, required } = await challenge()
      const payment = withValue(await signCustomPayment(required, payer), 'accepted.extra', undefined)
      await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_terms_mismatch')
    })
  })

  describe('signed for another request: 409 challenge_mismatch', () => {
    const mismatch = { status: 409, code: 'challenge_mismatch', param: null, says: ['different request'] }
    test('answers 409 challenge_mismatch to a payment signed for another body [spec L5a]', async () => {
      const audio_base64 = sandbox.sample.toString('base64')
      const { required } = await challenge(randomUUID(), {
        model: 'speechvendor/scribe-v2',
        audio_base64,
        diarize: true,
      })
      const { idempotencyKey } = await challenge()
      await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, payer)), mismatch)
    })
    test('answers 409 challenge_mismatch to a payment signed for another key [spec L1c]', async () => {
      const { required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      await expectNeverRetry(await sendPayment(randomUUID(), payment), mismatch)
    })
  })

  describe('not signed by its payer: 402 payment_signature_invalid [spec A2b]', () => {
    const signature = 'payload.signature'
    test.each<[string, (genuine: string) => string]>([
      ['one changed bit of r', (genuine) => `0x${(Number(`0x${genuine[2]}`) ^ 1).toString(16)}${genuine.slice(3)}`],
      ['the other recovery bit', (genuine) => genuine.slice(0, -2) + (genuine.endsWith('1b') ? '1c' : '1b')],
      ['an impossible recovery byte', (genuine) => `${genuine.slice(0, -2)}ff`],
      ['a missing byte', (genuine) => genuine.slice(0, -2)],
      ['only zero bytes', () => `0x${'00'.repeat(65)}`],
      ['only 0xff bytes', () => `0x${'ff'.repeat(65)}`],
      ['only one byte', () => '0x00'],
    ])('answers 402 payment_signature_invalid to a signature with %s', async (_, tamper) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const tampered = withValue(payment, signature, tamper(String(valueAt(payment, signature))))
      await expectFreshChallenge(await sendPayment(idempotencyKey, tampered), 'payment_signature_invalid')
    })
    test('answers 402 payment_signature_invalid to a payment signed by another key on behalf of the payer', async () => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, sponsored, { terms: { payer: payer.account.address } })
      await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_signature_invalid')
    })
    test.each([
      ['nonce', randomNonce().toString()],
      ['deadline', secondsFromNow(100_000).toString()],
      ['witness.validAfter', '1'],
    ])('answers 402 payment_signature_invalid when %s is changed after signing', async (path, value) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const changed = withValue(payment, `payload.permit2Authorization.${path}`, value)
      await expectFreshChallenge(await sendPayment(idempotencyKey, changed), 'payment_signature_invalid')
    })
  })

  test('answers 402 to a payment that would expire during the longest answer that the request may have', async () => {
    expect(await payForChat(65_536, 700)).toMatchObject(expiredUnless(744))
    expect(await payForChat(16_384, 300)).toMatchObject(expiredUnless(360))
  })

  test.each<[string, string, () => Partial<SignedTerms>]>([
    ['a deadline in the past', 'payment_expired', () => ({ deadline: secondsFromNow(-1) })],
    ['a deadline of zero', 'payment_expired', () => ({ deadline: 0n })],
    ['a deadline too soon to finish the work', 'payment_expired', () => ({ deadline: secondsFromNow(300) })],
    ['validAfter in the future', 'payment_not_yet_valid', () => ({ validAfter: secondsFromNow(3600) })],
    ['the largest validAfter', 'payment_not_yet_valid', () => ({ validAfter: 2n ** 256n - 1n })],
  ])('answers 402 to a payment with %s: %s', async (_, code, terms) => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer, { terms: terms() })
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), code)
  })

  test.each([
    ['no USDC', 0n],
    ['one atomic unit too little', PRICE - 1n],
  ])('answers 402 insufficient_funds to a payer with %s', async (_, usdcAtomic) => {
    const poor = await createPayer(sandbox.info.rpcUrl, { usdcAtomic, approved: true })
    const { idempotencyKey, required } = await challenge()
    const answer = await sendPayment(idempotencyKey, await signCustomPayment(required, poor))
    await expectFreshChallenge(answer, 'insufficient_funds')
  })
  test('answers the same refused payment from memory for seconds, without an RPC call or a write', async () => {
    const poor = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 0n })
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, poor, { permit: {} })
    const callsBefore = countReads()
    const first = await sendPayment(idempotencyKey, payment)
    expect(first.headers.get('retry-after')).toMatch(/^([1-9]|10)$/)
    const { message } = (await first.clone().json()) as { message: string }
    await expectFreshChallenge(first, 'insufficient_funds')
    // The balance, and whether the nonce is used.
    expect(countReads() - callsBefore).toBe(2)

    const locking = new pg.Client(sandbox.info.databaseUrl)
    await locking.connect()
    try {
      // May be read: another API may have accepted the payment since.
      await locking.query('BEGIN; LOCK TABLE idempotency_keys, authorizations IN EXCLUSIVE MODE')
      // Ends early on a machine so slow that the refusal is about to be forgotten.
      for (let [sent, waitSeconds] = [0, 10]; sent < 20 && waitSeconds > 3; sent += 1) {
        const again = await sendPayment(idempotencyKey, payment)
        waitSeconds = Number(again.headers.get('retry-after'))
        expect(again.headers.get('retry-after')).toMatch(/^([1-9]|10)$/)
        expect(await expectFreshChallenge(again, 'insufficient_funds')).toMatchObject({ message })
      }
    } finally {
      await locking.end()
    }
    expect(countReads() - callsBefore).toBe(2)
  })
  test('answers 412 with a challenge to a payer without allowance and without gas sponsoring [spec O16]', async () => {
    const { idempotencyKey, required } = await challenge()
    const answer = await sendPayment(idempotencyKey, await signCustomPayment(required, sponsored))
    await expectFreshChallenge(answer, 'permit2_allowance_required', 412)
  })
  test('answers 412 to a payer that echoes the gas-sponsoring declaration without signing a permit', async () => {
    const { idempotencyKey, required } = await challenge()
    const payment = { ...(await signCustomPayment(required, sponsored)), extensions: required.extensions }
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'permit2_allowance_required', 412)
  })
  test.each<[string, Partial<PermitTerms>, string]>([
    ['owner', { owner: STRANGER }, 'payment_rejected'],
    ['spender', { spender: STRANGER }, 'payment_rejected'],
    ['amount that is too small', { amount: PRICE - 1n }, 'payment_rejected'],
    ['nonce', { nonce: 7n }, 'payment_rejected'],
    ['deadline in the past', { deadline: 1n }, 'payment_expired'],
  ])('answers 402 to a gas-sponsoring permit of another %s', async (_, permit, code) => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, sponsored, { permit })
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), code)
  })
  test('answers 402 to a gas-sponsoring permit of another asset or another signer', async () => {
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
  test('answers 402 payment_nonce_used to a nonce that the payer has invalidated on chain', async () => {
    const { idempotencyKey, required } = await challenge()
    const nonce = randomNonce()
    const payment = await signCustomPayment(required, payer, { terms: { nonce } })
    await payer.invalidateNonce(nonce)
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_nonce_used')
  })
})

describe('a settled payment that a restored ledger does not know', () => {
  const ALREADY_SETTLED = { status: 409, code: 'payment_already_settled', param: null, payment: 'settled' } as const

  test('is answered with 409 payment_already_settled, charged once, and recorded for a person once', async () => {
    const { idempotencyKey, payment, nonce } = await makePaidCall()
    await forgetCall(idempotencyKey)
    const before = await countMoneyAndWork()
    for (let repetition = 0; repetition < 3; repetition += 1)
      await expectNeverRetry(await sendPayment(idempotencyKey, payment), ALREADY_SETTLED)
    expect(await countMoneyAndWork()).toEqual(before)
    const [transfer] = (await sandbox.chain.transfersTo(sandbox.info.payTo)).slice(-1)
    expect(
      await sandbox.sql(
        'SELECT idempotency_key, transaction_hash, amount FROM unknown_settlements WHERE payer = $1 AND nonce = $2',
        [payer.address, nonce.toString()],
      ),
    ).toMatchObject([
      {
        idempotency_key: idempotencyKey,
        transaction_hash: transfer?.transactionHash,
        amount: String(transfer?.valueAtomic),
      },
    ])
  })

  test.each<[string, (payment: CustomPayment) => unknown]>([
    ['with a challenge token of lost secrets', (payment) => withValue(payment, 'accepted.extra.challenge', 'lost')],
    ['with changed terms', (payment) => withValue(payment, 'accepted.maxTimeoutSeconds', 1)],
  ])('is recognized %s', async (_, change) => {
    const { idempotencyKey, payment } = await makePaidCall()
    await forgetCall(idempotencyKey)
    await expectNeverRetry(await sendPayment(idempotencyKey, change(payment)), ALREADY_SETTLED)
  })

  test('is recognized when its payer has no funds left', async () => {
    const spender = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000n, approved: true })
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, spender)
    await expectPaid(await sendPayment(idempotencyKey, payment))
    await spender.spendAll()
    await forgetCall(idempotencyKey)
    await expectNeverRetry(await sendPayment(idempotencyKey, payment), ALREADY_SETTLED)
  })

  test('leads to no request for another payment while the chain cannot be read', async () => {
    const { idempotencyKey, payment } = await makePaidCall()
    await forgetCall(idempotencyKey)
    rpc.setFault({ kind: 'hang' })
    const changed = withValue(payment, 'accepted.maxTimeoutSeconds', 1)
    const answer = await sendToImpatientApi(idempotencyKey, changed)
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({
      error: { code: 'payment_state_unknown', payment: 'unknown', retry: 'same_request' },
    })
    rpc.setFault(null)
    await expectNeverRetry(await sendPayment(idempotencyKey, changed), ALREADY_SETTLED)
  })

  test('is not looked up for a signature of someone else', async () => {
    const other = await createPayer(sandbox.info.rpcUrl)
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer, { terms: { payer: other.account.address } })
    const before = countReads()
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'payment_signature_invalid')
    // The balance, and the simulation, which returns that the payer has no code.
    expect(countReads() - before).toBe(2)
  })
})

describe('an accepted payment', () => {
  test('answers 409 authorization_already_used to a payment that has paid for another key [spec O17]', async () => {
    const { payment, nonce, after } = await makePaidCall()
    const { idempotencyKey, required } = await challenge()
    // The signature does not cover the challenge token, so it remains valid with a new one.
    const moved = { ...payment, accepted: required.accepts[0] }
    const again = await signCustomPayment(required, payer, { terms: { nonce } })
    for (const reused of [moved, again])
      await expectNeverRetry(await sendPayment(idempotencyKey, reused), {
        status: 409,
        code: 'authorization_already_used',
        param: null,
      })
    expect(await countMoneyAndWork()).toEqual(after)
  })
  test('answers 409 idempotency_key_reused to another payer’s payment for a paid key', async () => {
    const { idempotencyKey, after } = await makePaidCall()
    const { required } = await challenge(idempotencyKey)
    const intruder = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
    await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, intruder)), {
      status: 409,
      code: 'idempotency_key_reused',
      param: 'x-idempotency-key',
    })
    expect(await countMoneyAndWork()).toEqual(after)
  })
  test('returns no result for the signature that settled the call, which anyone can read on chain', async () => {
    const { idempotencyKey, payment, after } = await makePaidCall()
    // A stranger has the key, the body, and a node: the payment as it was settled, and an unpaid request's challenge.
    const published = await readSettledPayment()
    const { required } = await challenge(idempotencyKey)
    const rebuilt = { x402Version: 2, resource: required.resource, accepted: required.accepts[0], payload: published }
    const answer = await sendPayment(idempotencyKey, rebuilt)
    expect(answer.headers.get('x-receipt-token')).toBeNull()
    await expectFreshChallenge(answer, 'fresh_signature_required')
    // Its payer sends the accepted payment again, or signs another challenge.
    const fresh = await signCustomPayment(required, payer)
    for (const own of [payment, fresh]) await expectPaid(await sendPayment(idempotencyKey, own))
    expect(await countMoneyAndWork()).toEqual(after)
  })
  test('gives the key of an uncharged call to another payer and another request once its challenge has expired', async () => {
    const { idempotencyKey, required } = await challenge()
    await sandbox.setFaults([{ fault: 'status', status: 500, body: '{}', headers: {} }])
    const failed = await sendPayment(idempotencyKey, await signCustomPayment(required, payer))
    expect(failed.status).toBe(503)
    await sandbox.setFaults([])
    const other = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: true })
    const body = { ...transcriptionBody(), language: 'en' }
    const headers = paymentHeader(await signCustomPayment(required, other))
    expect((await sandbox.transcribe({ idempotencyKey, body })).status).toBe(409)
    expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(409)
    await sandbox.sql("UPDATE idempotency_keys SET expires_at = now() - interval '1 s' WHERE idempotency_key = $1", [
      idempotencyKey,
    ])
    const { required: anew } = await challenge(idempotencyKey, body)
    const paid = paymentHeader(await signCustomPayment(anew, other))
    await expectPaid(await sandbox.transcribe({ idempotencyKey, body, headers: paid }))
  })
  test('returns no result to a replay whose signature is forged or missing', async () => {
    const { idempotencyKey, payment, after } = await makePaidCall()
    const answer = await sendPayment(idempotencyKey, withValue(payment, 'payload.signature', `0x${'11'.repeat(64)}1b`))
    await expectFreshChallenge(answer, 'payment_signature_invalid')
    expect((await sandbox.transcribe({ idempotencyKey })).status).toBe(402)
    expect(await countMoneyAndWork()).toEqual(after)
  })
  test('accepts a payment signed from the challenge of a refusal', async () => {
    const { idempotencyKey, required } = await challenge()
    const expired = await signCustomPayment(required, payer, { terms: { deadline: secondsFromNow(-1) } })
    const refusal = await sendPayment(idempotencyKey, expired)
    expect(refusal.status).toBe(402)
    await expectPaid(await sendPayment(idempotencyKey, await signCustomPayment(challengeOf(refusal), payer)))
  })
  test('accepts a gas-sponsored payment signed by hand and one signed by the official client [spec L4b]', async () => {
    const { idempotencyKey, required } = await challenge()
    await expectPaid(await sendPayment(idempotencyKey, await signCustomPayment(required, sponsored, { permit: {} })))
    const official = createPayingClient({ ...sandbox.info, privateKey: sandbox.info.payer.privateKey })
    const key = randomUUID()
    const headers = await official.sign(await sandbox.transcribe({ idempotencyKey: key }))
    await expectPaid(await sandbox.transcribe({ idempotencyKey: key, headers }))
  })
})

describe('while the chain is unavailable', () => {
  afterEach(() => rpc.setFault(null))

  const failing: RpcFault = { kind: 'status', status: 500 }
  const faults: [string, RpcFault][] = [
    ['HTTP 500', failing],
    ['rate limiting', { kind: 'status', status: 429 }],
    ['not JSON', { kind: 'html' }],
    ['internal error', { kind: 'error', code: -32_603, message: 'Internal error' }],
    ['header not found', { kind: 'error', code: -32_000, message: 'header not found' }],
    ['connection reset', { kind: 'reset' }],
    ['no response', { kind: 'hang' }],
  ]
  test.each(faults)(
    'answers 503 to a valid payment while the chain fails (%s), and accepts it afterwards [spec T8, O12]',
    async (_, fault) => {
      const { idempotencyKey, required } = await challenge()
      const payment = await signCustomPayment(required, payer)
      const before = await countMoneyAndWork()
      rpc.setFault(fault)
      const sendMeanwhile = fault.kind === 'hang' ? sendToImpatientApi : sendPayment
      await expectNetworkUnavailable(await sendMeanwhile(idempotencyKey, payment))
      expect(await countMoneyAndWork()).toEqual(before)
      rpc.setFault(null)
      await expectPaid(await sendPayment(idempotencyKey, payment))
      expect(await countMoneyAndWork()).toEqual({
        calls: before.calls + 1,
        transfers: before.transfers + 1,
        jobs: before.jobs + 1,
      })
    },
  )
  test('answers 503 to a valid payment while the base fee is above what settlements may offer, and accepts it afterwards', async () => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer)
    const before = await countMoneyAndWork()
    await setBaseFee(1_000_000_000n)
    await expectNetworkUnavailable(await sendPayment(idempotencyKey, payment), 'payment_network_fees_high')
    expect(await countMoneyAndWork()).toEqual(before)
    await setBaseFee(5_000_000n)
    await expectPaid(await sendPayment(idempotencyKey, payment))
    expect(await countMoneyAndWork()).toEqual({
      calls: before.calls + 1,
      transfers: before.transfers + 1,
      jobs: before.jobs + 1,
    })
  })
  test('refuses a payer whom operators block before any work, and takes the same payment once they unblock them', async () => {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer)
    const control = async (verb: 'block' | 'unblock') => {
      const options = [verb, payer.address, '--reason', 'a test', '--json']
      expect(await payers(options, { DATABASE_URL: sandbox.info.databaseUrl })).toBe(0)
      // All APIs apply it within two seconds.
      await delay(2500)
    }
    const before = await countMoneyAndWork()
    await control('block')
    const answer = await sendPayment(idempotencyKey, payment)
    const { error } = await expectErrorBody(answer, { status: 409, code: 'payer_blocked', param: null })
    expect(error).toMatchObject({ payment: 'none', retry: 'never' })
    expect(await countMoneyAndWork()).toEqual(before)
    await control('unblock')
    await expectPaid(await sendPayment(idempotencyKey, payment))
  })
  test('refuses a payer whom the list on chain names before any work, where an API is set to ask it', async () => {
    const { idempotencyKey, required } = await challenge()
    const named = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: PRICE, approved: true })
    const payment = await signCustomPayment(required, named)
    const before = await countMoneyAndWork()
    await setOracleAnswer(sandbox.info.rpcUrl, 1)
    const answer = await sendToImpatientApi(idempotencyKey, payment)
    const { error } = await expectErrorBody(answer, { status: 409, code: 'payer_blocked', param: null })
    expect(error).toMatchObject({ payment: 'none', retry: 'never' })
    expect(await countMoneyAndWork()).toEqual(before)
    await setOracleAnswer(sandbox.info.rpcUrl, 0)
    await expectPaid(await sendPayment(idempotencyKey, payment))
  })
  test('answers 503 when the reason of a refusal can no longer be read', async () => {
    const { idempotencyKey, required } = await challenge()
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: PRICE, approved: false })
    const payment = await signCustomPayment(required, payer)
    // Balance and simulation, which reads the code as well, pass.
    rpc.setFaultFor(2, Number.POSITIVE_INFINITY, failing)
    await expectNetworkUnavailable(await sendPayment(idempotencyKey, payment))
    rpc.setFault(null)
    await expectFreshChallenge(await sendPayment(idempotencyKey, payment), 'permit2_allowance_required', 412)
  })
  test('issues challenges and rejects malformed payments while the chain is unavailable', async () => {
    rpc.setFault(failing)
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, payer)
    const malformed = await sendPayment(idempotencyKey, withValue(payment, 'x402Version', 1))
    await expectNeverRetry(malformed, { status: 400, code: 'invalid_payment_header', param: 'PAYMENT-SIGNATURE' })
    const unsigned = await sendPayment(idempotencyKey, withValue(payment, 'payload.signature', `0x${'11'.repeat(64)}`))
    await expectFreshChallenge(unsigned, 'payment_signature_invalid')
  })
})

describe('the permit of a 412', () => {
  interface Missing {
    readonly message: string
    readonly permit?: {
      readonly submit: { readonly method: string; readonly url: string } | null
      readonly typed_data: {
        readonly domain: object
        readonly types: typeof PERMIT_TYPES
        readonly primaryType: 'Permit'
        readonly message: Readonly<Record<'owner' | 'spender' | 'value' | 'nonce' | 'deadline', string>>
      }
    }
  }
  /** Pays without an allowance; returns the 412. */
  async function meet412(poor: Payer) {
    const { idempotencyKey, required } = await challenge()
    const payment = await signCustomPayment(required, poor)
    const answer = await sendPayment(idempotencyKey, payment)
    const body = (await answer.clone().json()) as Missing
    await expectFreshChallenge(answer, 'permit2_allowance_required', 412)
    if (!body.permit) throw new Error('the 412 has no permit')
    return { idempotencyKey, required: challengeOf(answer), ...body, permit: body.permit }
  }

  test('is signed as it stands, sent with the payment, lasts, and pays without a node of the chain', async () => {
    const poor = await createPayer(sandbox.info.rpcUrl, { approved: false })
    const { idempotencyKey, required, permit, message } = await meet412(poor)
    const { submit, typed_data: typedData } = permit
    expect(typedData).toMatchObject({
      primaryType: 'Permit',
      domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: sandbox.info.usdc.toLowerCase() },
      message: { owner: poor.address, spender: DEVNET_ADDRESSES.permit2.toLowerCase(), nonce: '0' },
    })
    expect(submit).toEqual({ method: 'POST', url: `${sandbox.info.baseUrl}/v1/allowances` })
    expect(message).toContain('permit.typed_data')
    const toSign: TypedDataDefinition = typedData
    const signature = await poor.account.signTypedData(toSign)
    const amount = BigInt(typedData.message['value'] ?? 0)
    const deadline = BigInt(typedData.message['deadline'] ?? 0)
    const payment = await signCustomPayment(required, poor, { permit: { amount, deadline } })
    const signed = withValue(payment, 'extensions.eip2612GasSponsoring.info.signature', signature)
    await expectPaid(await sendPayment(idempotencyKey, signed))
    expect(await sandbox.chain.permit2Allowance(poor.address)).toBe(amount - PRICE)
  })
  test('has the nonce of the moment, and is left out of a repetition, which reads nothing', async () => {
    const poor = await createPayer(sandbox.info.rpcUrl, { approved: false })
    const { idempotencyKey, required } = await meet412(poor)
    const withPermit = await signCustomPayment(required, poor, { permit: {} })
    await expectPaid(await sendPayment(idempotencyKey, withPermit))
    const other = await challenge()
    const plain = await signCustomPayment(other.required, poor)
    const refused = (await (await sendPayment(other.idempotencyKey, plain)).json()) as Missing
    expect(refused.permit?.typed_data.message.nonce).toBe('1')
    const before = countReads()
    const again = (await (await sendPayment(other.idempotencyKey, plain)).json()) as Missing
    expect(again.permit).toBeUndefined()
    expect(again.message).toContain('GET /v1/allowances')
    expect(countReads()).toBe(before)
  })
})
