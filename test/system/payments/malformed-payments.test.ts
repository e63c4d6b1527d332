import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  encodeAbiParameters,
  type Hex,
  parseSignature,
  serializeCompactSignature,
  signatureToCompactSignature,
} from 'viem'
import { serializeErc6492Signature } from 'viem/utils'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { expectNeverRetry } from '../../support/http/expect-refusal.ts'
import { sendRaw } from '../../support/http/raw-request.ts'
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
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import type { PermitTerms } from '../../support/payer/sign-permit.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PATH = '/v1/chat/completions'
const BODY = { model: 'textmodel-3.5-flash', max_tokens: 16, messages: [{ role: 'user', content: 'Good evening.' }] }
const HUGE_NUMBERS = [2n ** 255n, 2n ** 256n - 1n] as const
let sandbox: SharedSandbox
/** A payer that has approved Permit2. */
let payer: Payer
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
})
afterAll(() => sandbox.stop())
const send = (idempotencyKey: string, headers: Record<string, string>) =>
  sandbox.post(PATH, BODY, { idempotencyKey, headers })
const sendHeader = (idempotencyKey: string, header: string) => send(idempotencyKey, { 'payment-signature': header })
const sendPayment = (idempotencyKey: string, payment: unknown) => send(idempotencyKey, paymentHeader(payment))
const base64 = (text: string | Uint8Array) => Buffer.from(text).toString('base64')
async function challenge() {
  const idempotencyKey = randomUUID()
  const answer = await send(idempotencyKey, {})
  expect(answer.status).toBe(402)
  return { idempotencyKey, required: challengeOf(answer) }
}
async function expectMalformed(answer: Response): Promise<void> {
  await expectNeverRetry(answer, { status: 400, code: 'invalid_payment_header', param: 'PAYMENT-SIGNATURE' })
}
async function expectRefused(answer: Response, code: string, status = 402): Promise<void> {
  const text = await answer.text()
  expect({ status: answer.status, text }).toMatchObject({ status })
  expect(JSON.parse(text)).toMatchObject({ code, payment: 'none' })
  expect(challengeOf(answer)).toMatchObject({ error: code })
}
async function readTraces() {
  const [calls, jobs, authorizations, log] = await Promise.all([
    sandbox.upstreamCalls(),
    sandbox.added('jobs'),
    sandbox.added('authorizations'),
    readFile(join(sandbox.directory, 'logs', 'api.log'), 'utf8'),
  ])
  return {
    calls: calls.length,
    jobs,
    authorizations,
    // Restarts and unexpected failures leave lines in the log.
    troubles: log.match(/listening on|unhandled|uncaught|TypeError|RangeError|"request failed"/gi)?.length,
    pid: sandbox.pidOf('api'),
  }
}
async function expectNoTraceSince(before: Awaited<ReturnType<typeof readTraces>>): Promise<void> {
  expect(await readTraces()).toEqual(before)
  process.kill(before.pid, 0)
}
let key: string
/** A valid payment with a gas-sponsoring permit; each case corrupts one part of it. */
let payment: CustomPayment
const SIGNED = 'payload.permit2Authorization'
const PERMIT = 'extensions.eip2612GasSponsoring.info'
/** Expects a refusal of the payment for each value put at `path`. */
async function expectEachMalformed(path: string, values: readonly unknown[]): Promise<void> {
  for (const value of values) await expectMalformed(await sendPayment(key, withValue(payment, path, value)))
}
const signedNonce = () => String(valueAt(payment, `${SIGNED}.nonce`))
const paymentText = () => JSON.stringify(payment)
/** Returns the payment's JSON with these bytes in an extension. */
function withBytes(bytes: readonly number[]): Buffer {
  const [head = '', tail = ''] = paymentText().split('"extensions":{', 2)
  return Buffer.concat([Buffer.from(`${head}"extensions":{"note":"`), Buffer.from(bytes), Buffer.from(`",${tail}`)])
}
/** Returns the payment's JSON padded to a length whose Base64 has the wanted padding. */
function withLength(remainder: number): Buffer {
  for (let note = 'x'; ; note += 'x') {
    const bytes = Buffer.from(JSON.stringify({ ...payment, note }))
    if (bytes.length % 3 === remainder) return bytes
  }
}
/** Returns the payment as a header in the URL-safe alphabet. */
function base64url(): string {
  const header = Buffer.from(JSON.stringify({ ...payment, note: '~~~???>>>' })).toString('base64url')
  expect(header).toMatch(/[-_]/)
  return header
}
function deep(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels)
}
/** Sets a bit that Base64 decoders ignore. */
function withStrayBits(header: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  expect(header).toMatch(/[^=]=$/)
  const last = alphabet.indexOf(header.at(-2) ?? '')
  return `${header.slice(0, -2)}${alphabet[last | 1]}=`
}
function wrapUndeployed(signature: Hex): Hex {
  return serializeErc6492Signature({ address: `0x${'cd'.repeat(20)}`, data: '0x1234', signature })
}
function wrapMultiOwner(signature: Hex): Hex {
  const shape = [{ type: 'tuple', components: [{ type: 'uint256' }, { type: 'bytes' }] }] as const
  return encodeAbiParameters(shape, [[0n, signature]])
}
/** Returns the other signature that `ecrecover` maps to the same signer. */
function withMirroredS(signature: Hex): Hex {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
  const s = order - BigInt(`0x${signature.slice(66, 130)}`)
  const v = signature.endsWith('1b') ? '1c' : '1b'
  return `0x${signature.slice(2, 66)}${s.toString(16).padStart(64, '0')}${v}`
}
function toCompactForm(signature: Hex): Hex {
  return serializeCompactSignature(signatureToCompactSignature(parseSignature(signature)))
}
/** Returns the payment with each hexadecimal string changed. */
function changeHex(payment: CustomPayment, change: (hex: string) => string): CustomPayment {
  return JSON.parse(JSON.stringify(payment), (_, value: unknown) =>
    typeof value === 'string' && /^0x[0-9a-fA-F]+$/.test(value) ? change(value) : value,
  ) as CustomPayment
}

describe('payments that are refused without a trace', () => {
  let before: Awaited<ReturnType<typeof readTraces>>
  beforeAll(async () => {
    const { idempotencyKey, required } = await challenge()
    key = idempotencyKey
    const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
    payment = await signCustomPayment(required, owner, { permit: {} })
  })
  beforeEach(async () => {
    before = await readTraces()
  })
  afterEach(async () => {
    await expectNoTraceSince(before)
  })

  const otherTypes = [undefined, null, 5, -1, 1.5, true, false, [], ['1'], {}, { value: '1' }]

  describe('one corrupted member', () => {
    const notNumbers = [
      '',
      ' ',
      ' 1',
      '1 ',
      '1\n',
      '\t1',
      '\u00001',
      '1\u00a0',
      '-1',
      '-0',
      '+1',
      '01',
      '00',
      '1.0',
      '1.',
      '.5',
      '1e3',
      '1E3',
      '1e-3',
      '1e400',
      'NaN',
      'Infinity',
      '0x10',
      '0X10',
      '0b1',
      '0o7',
      '1n',
      'ff',
      '1_000',
      '1,000',
      '1 000',
      '١٢٣',
      '１２３',
      '²',
      'Ⅷ',
      '1\u200b',
      '𝟙',
      (2n ** 256n).toString(),
      (10n ** 80n).toString(),
      '9'.repeat(2000),
    ]
    test.each([
      ...['permitted.amount', 'nonce', 'deadline', 'witness.validAfter'].map((name) => `${SIGNED}.${name}`),
      ...['amount', 'nonce', 'deadline'].map((name) => `${PERMIT}.${name}`),
    ])('answers 400 unless %s is a string with a plain decimal number of at most 256 bits', (path) =>
      expectEachMalformed(path, [...otherTypes, ...notNumbers]),
    )

    const digits = '833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
    const notAddresses = [
      '',
      '0x',
      digits,
      `0X${digits}`,
      `0x${digits}0`,
      `0x${digits}00`,
      `0x${digits.slice(1)}`,
      `x${digits}`,
      ` 0x${digits}`,
      `0x${digits} `,
      `0x${digits}\n`,
      `0x${digits.slice(1)}g`,
      `0x${digits.slice(1)}３`,
      `0x${digits.slice(1)}\u0000`,
      `0x0x${digits.slice(2)}`,
      `ethereum:0x${digits}`,
      'usdc.eth',
      '0',
    ]
    test.each([
      ...['from', 'permitted.token', 'spender', 'witness.to', 'witness.facilitator'].map((name) => `${SIGNED}.${name}`),
      ...['from', 'asset', 'spender'].map((name) => `${PERMIT}.${name}`),
    ])('answers 400 unless %s is 0x and 40 hexadecimal digits', (path) =>
      expectEachMalformed(path, [...otherTypes, ...notAddresses]),
    )

    const hex = '11'.repeat(64)
    const notBytes = [
      '',
      '0x',
      '0',
      `${hex}1b`,
      `0X${hex}1b`,
      `0x${hex}1`,
      `0x${hex}1g`,
      ` 0x${hex}1b`,
      `0x${hex}1b\n`,
      `0x${hex} 1b`,
      `0x${hex}１b`,
      base64(hex),
    ]
    test('answers 400 unless payload.signature is 0x and whole bytes', () =>
      expectEachMalformed('payload.signature', [...otherTypes, ...notBytes, `0x${'00'.repeat(4097)}`]))
    test('answers 400 to a permit’s signature of 65 bytes that is not on the curve', () =>
      expectEachMalformed(`${PERMIT}.signature`, [
        ...otherTypes.filter((value) => value !== undefined),
        ...notBytes,
        `0x${hex}1d`,
        `0x${'00'.repeat(64)}1b`,
        `0x${'ff'.repeat(64)}1b`,
      ]))

    test.each(['x402Version', 'accepted', 'payload', SIGNED, `${SIGNED}.permitted`, `${SIGNED}.witness`])(
      'answers 400 to %s of another type',
      (path) => expectEachMalformed(path, [undefined, null, 5, 1.5, true, 'x', '2', [], [{}], {}]),
    )
    test.each(['resource', 'accepted.extra', 'extensions', 'extensions.eip2612GasSponsoring', PERMIT])(
      'answers 400 to the optional %s of another type',
      (path) => expectEachMalformed(path, [null, 5, true, 'x', []]),
    )
    test.each(['scheme', 'network', 'amount', 'asset', 'payTo'])('answers 400 to accepted.%s of another type', (name) =>
      expectEachMalformed(`accepted.${name}`, otherTypes),
    )
    test.each([
      `${PERMIT}.version`,
      `${PERMIT}.note`,
      'accepted.network',
      'accepted.extra.note',
      'resource.description',
      'extensions.note',
      'extensions.a\0',
    ])('answers 400 to %j with text that no ledger can store', (path) =>
      expectEachMalformed(path, ['1\0', '\0', '\ud800', 'a\udc00b', { 'a\0': 1 }, ['\ud83d']]),
    )
    test('answers 400 to accepted.maxTimeoutSeconds of another type', () =>
      expectEachMalformed('accepted.maxTimeoutSeconds', [undefined, null, '900', true, [], {}]))
    test('answers 400 to resource.url of another type', () => expectEachMalformed('resource.url', otherTypes))
    test.each([SIGNED, `${SIGNED}.permitted`, `${SIGNED}.witness`, 'payload'])(
      'answers 400 to %s with an additional member',
      (path) => expectEachMalformed(`${path}.memo`, [null, 'x', {}]),
    )
  })

  describe('unusual JSON', () => {
    test.each<[string, () => string]>([
      ['a repeated member of the envelope', () => paymentText().replace('{', '{"x402Version":2,')],
      [
        'a repeated member of the signed terms',
        () => paymentText().replace('"nonce":', `"nonce":"${signedNonce()}","nonce":`),
      ],
      ['a repeated member in another spelling', () => paymentText().replace('"nonce":', '"\\u006eonce":"1","nonce":')],
      ['a repeated member of the permit', () => paymentText().replace('"version":"1"', '"version":"1","version":"1"')],
      ['__proto__ in the envelope', () => paymentText().replace('{', '{"__proto__":{"x402Version":2},')],
      ['__proto__ in the signed terms', () => paymentText().replace('"nonce":', '"__proto__":{"nonce":"1"},"nonce":')],
      ['__proto__ in place of the payload', () => paymentText().replace('"payload":', '"__proto__":')],
      ['__proto__ in the accepted extra', () => paymentText().replace('"extra":{', '"extra":{"__proto__":{"a":1},')],
      ['an escaped __proto__', () => paymentText().replace('{', '{"\\u005f_proto__":{},')],
      [
        'constructor in the signed terms',
        () => paymentText().replace('"nonce":', '"constructor":{"prototype":{}},"nonce":'),
      ],
      [
        'an extension 4,000 levels deep',
        () => paymentText().replace('"extensions":{', `"extensions":{"x":${deep(4000)},`),
      ],
      [
        'an extension 100 levels deep',
        () => paymentText().replace('"extensions":{', `"extensions":{"x":${deep(100)},`),
      ],
      ['10,000 nested arrays', () => '['.repeat(10_000)],
      ['trailing JSON', () => `${paymentText()}{}`],
      ['a leading byte order mark', () => `\ufeff${paymentText()}`],
      ['a comment', () => paymentText().replace('{', '{/* */')],
      ['a trailing comma', () => `${paymentText().slice(0, -1)},}`],
      ['NaN for a number', () => paymentText().replace('"x402Version":2', '"x402Version":NaN')],
      ['1e400 for the version', () => paymentText().replace('"x402Version":2', '"x402Version":1e400')],
      ['an array around the payment', () => `[${paymentText()}]`],
      ['the payment as a JSON string', () => JSON.stringify(paymentText())],
      ['a raw line break in a string', () => paymentText().replace('"nonce":"', '"nonce":"\n')],
    ])('answers 400 to a payment of unusual JSON: %s', async (_, malformed) => {
      expect(malformed()).not.toBe(paymentText())
      await expectMalformed(await sendHeader(key, base64(malformed())))
    })

    test.each<[string, () => Uint8Array]>([
      ['a byte that is not UTF-8, in an extension that is not read', () => withBytes([0xff])],
      ['a truncated UTF-8 sequence', () => withBytes([0xe2, 0x82])],
      ['an overlong UTF-8 sequence', () => withBytes([0xc0, 0xaf])],
      ['a surrogate encoded as UTF-8', () => withBytes([0xed, 0xa0, 0x80])],
      ['UTF-16', () => Buffer.from(paymentText(), 'utf16le')],
      ['the first bytes of gzip', () => Buffer.from([0x1f, 0x8b, 8, 0])],
    ])('answers 400 to a payment with invalid bytes: %s', async (_, bytes) => {
      await expectMalformed(await sendHeader(key, base64(bytes())))
    })
  })

  describe('an unusual header', () => {
    test.each<[string, () => string]>([
      ['without its padding', () => withLength(2).toString('base64').replace(/=+$/, '')],
      ['with too much padding', () => `${withLength(0).toString('base64')}==`],
      ['with stray bits before the padding', () => withStrayBits(withLength(2).toString('base64'))],
      ['with a space in it', () => withLength(0).toString('base64').replace(/^..../, '$& ')],
      ['with a tab in it', () => withLength(0).toString('base64').replace(/^..../, '$&\t')],
      ['quoted', () => `"${withLength(0).toString('base64')}"`],
      ['with a leading scheme', () => `x402 ${withLength(0).toString('base64')}`],
      ['percent-encoded', () => encodeURIComponent(withLength(2).toString('base64'))],
      ['in hexadecimal', () => Buffer.from('{"x402Version":2}').toString('hex')],
      ['in the URL-safe alphabet', () => base64url()],
      ['repeated after a comma', () => `${withLength(0).toString('base64')}, ${withLength(0).toString('base64')}`],
      ['plain JSON', () => JSON.stringify({ x402Version: 2 })],
    ])('answers 400 to a payment header that is sent %s', async (_, header) => {
      await expectMalformed(await sendHeader(key, header()))
    })

    const raw = (...headers: (readonly [string, string])[]) =>
      sendRaw(sandbox.info.baseUrl, {
        path: PATH,
        headers: [['x-idempotency-key', key], ['content-type', 'application/json'], ...headers],
        body: [Buffer.from(JSON.stringify(BODY))],
      })
    const length: readonly [string, string] = ['content-length', String(JSON.stringify(BODY).length)]

    test.each(['PAYMENT-SIGNATURE', 'payment-signature', 'Payment-Signature'])(
      'answers 400 duplicate_header to a payment header that is sent again as %s, whatever its value',
      async (name) => {
        const header = paymentHeader(payment)['payment-signature'] ?? ''
        for (const second of [header, '', 'x']) {
          const { answer } = await raw(length, ['payment-signature', header], [name, second])
          await expectNeverRetry(answer, { status: 400, code: 'duplicate_header', param: 'payment-signature' })
        }
      },
    )
    test('answers 400 headers_too_large to a payment header of 100 KB', async () => {
      const { answer } = await raw(length, ['payment-signature', 'A'.repeat(100_000)])
      await expectNeverRetry(answer, { status: 400, code: 'headers_too_large', param: null })
    })
    test('answers 400 to a payment header with bytes beyond ASCII', async () => {
      for (const byte of ['\u00e9', '\u00ff', '\u00a0']) {
        const { answer } = await raw(length, ['payment-signature', `${base64('{}')}${byte}${base64('{}')}`])
        await expectMalformed(answer)
      }
    })
    test('answers 400 malformed_http to a payment header with a control character', async () => {
      const { answer } = await raw(length, ['payment-signature', `${base64('{}')}\u0000`])
      await expectNeverRetry(answer, { status: 400, code: 'malformed_http', param: null })
    })
  })

  describe('a payment that echoes other terms than its challenge’s', () => {
    test.each<[string, unknown, string]>([
      ['resource.url', 'https://example.test/v1/chat/completions', 'payment_terms_mismatch'],
      ['resource.url', '', 'payment_terms_mismatch'],
      ['accepted.maxTimeoutSeconds', 901, 'payment_terms_mismatch'],
      ['accepted.maxTimeoutSeconds', -1, 'payment_terms_mismatch'],
      ['accepted.maxTimeoutSeconds', 1e300, 'payment_terms_mismatch'],
      ['accepted.extra', undefined, 'payment_terms_mismatch'],
      ['accepted.extra', {}, 'payment_terms_mismatch'],
      ['accepted.extra.challenge', 5, 'payment_terms_mismatch'],
      ['accepted.extra.name', 'USDC', 'payment_terms_mismatch'],
      ['accepted.extra.name', undefined, 'payment_terms_mismatch'],
      ['accepted.extra.version', '1', 'payment_terms_mismatch'],
      ['accepted.extra.version', 2, 'payment_terms_mismatch'],
      ['accepted.extra.assetTransferMethod', 'eip3009', 'payment_terms_mismatch'],
      ['accepted.extra.facilitatorAddress', `0x${'12'.repeat(20)}`, 'payment_terms_mismatch'],
      ['accepted.extra.facilitatorAddress', null, 'payment_terms_mismatch'],
      ['accepted.extra.expiresAt', undefined, 'payment_terms_mismatch'],
      ['accepted.extra.expiresAt', '2099-01-01T00:00:00.000Z', 'payment_terms_mismatch'],
      ['accepted.extra.expiresAt', 4_070_908_800, 'payment_terms_mismatch'],
      ['accepted.scheme', 'UPTO', 'payment_scheme_mismatch'],
      ['accepted.scheme', ' upto', 'payment_scheme_mismatch'],
      ['accepted.scheme', '', 'payment_scheme_mismatch'],
      ['accepted.network', 'base', 'payment_network_mismatch'],
      ['accepted.network', 'EIP155:8453', 'payment_network_mismatch'],
      ['accepted.network', 'eip155:08453', 'payment_network_mismatch'],
      ['accepted.asset', '0X833589FCD6EDB6E08F4C7C32D4F71B54BDA02913', 'payment_asset_mismatch'],
      ['accepted.asset', '', 'payment_asset_mismatch'],
      ['accepted.payTo', '', 'payment_recipient_mismatch'],
      ['accepted.amount', '1e3', 'payment_amount_mismatch'],
      ['accepted.amount', '-1', 'payment_amount_mismatch'],
      ['accepted.amount', (10n ** 80n).toString(), 'payment_amount_mismatch'],
    ])('answers 402 to an echoed %s of %j with the code %s', async (path, value, code) => {
      const { idempotencyKey, required } = await challenge()
      const changed = withValue(await signCustomPayment(required, payer), path, value)
      await expectRefused(await sendPayment(idempotencyKey, changed), code)
    })
    test('answers 402 to an echoed amount, asset, recipient or network with one changed digit', async () => {
      const { idempotencyKey, required } = await challenge()
      const good = await signCustomPayment(required, payer)
      const codes = {
        amount: 'payment_amount_mismatch',
        asset: 'payment_asset_mismatch',
        payTo: 'payment_recipient_mismatch',
        network: 'payment_network_mismatch',
      }
      for (const [name, code] of Object.entries(codes)) {
        const value = String(valueAt(good, `accepted.${name}`))
        const changed = value.slice(0, -1) + (value.endsWith('1') ? '2' : '1')
        await expectRefused(await sendPayment(idempotencyKey, withValue(good, `accepted.${name}`, changed)), code)
      }
    })
    test('answers 409 challenge_mismatch to the challenge of another key or another operation', async () => {
      const mismatch = { status: 409, code: 'challenge_mismatch', param: null }
      const other = await challenge()
      const { idempotencyKey } = await challenge()
      await expectNeverRetry(
        await sendPayment(idempotencyKey, await signCustomPayment(other.required, payer)),
        mismatch,
      )
      // Chat and messages may have the same body and price; the challenge still distinguishes them.
      const messages = await sandbox.post('/v1/messages', BODY)
      const required = challengeOf(messages)
      await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, payer)), mismatch)
    })
  })

  test.each<[string, () => Partial<SignedTerms>, string]>([
    ['a deadline in the past', () => ({ deadline: secondsFromNow(-1) }), 'payment_expired'],
    ['a deadline of 0', () => ({ deadline: 0n }), 'payment_expired'],
    ['a deadline of 1', () => ({ deadline: 1n }), 'payment_expired'],
    ['a deadline too soon', () => ({ deadline: secondsFromNow(300) }), 'payment_expired'],
    ['validAfter in the future', () => ({ validAfter: secondsFromNow(3600) }), 'payment_not_yet_valid'],
    ['validAfter of 2^255', () => ({ validAfter: HUGE_NUMBERS[0] }), 'payment_not_yet_valid'],
    [
      'validAfter and deadline of 2^256 - 1',
      () => ({ validAfter: HUGE_NUMBERS[1], deadline: HUGE_NUMBERS[1] }),
      'payment_not_yet_valid',
    ],
    ['the largest amount', () => ({ amount: HUGE_NUMBERS[1] }), 'payment_amount_mismatch'],
    ['the zero address as payer', () => ({ payer: `0x${'0'.repeat(40)}` }), 'insufficient_funds'],
  ])('answers 402 to a payment signed with %s', async (_, terms, code) => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer, { terms: terms() })
    await expectRefused(await sendPayment(idempotencyKey, signed), code)
  })

  test.each<[string, Partial<PermitTerms>, string]>([
    ['nonce of 2^256 - 1', { nonce: HUGE_NUMBERS[1] }, 'payment_rejected'],
    ['amount of 0', { amount: 0n }, 'payment_rejected'],
    ['deadline of 0', { deadline: 0n }, 'payment_expired'],
  ])('answers 402 to a gas-sponsoring permit with a %s', async (_, changes, code) => {
    const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, owner, { permit: changes })
    await expectRefused(await sendPayment(idempotencyKey, signed), code)
  })

  const [invalid, undeployed, unfunded] = ['payment_signature_invalid', 'payer_not_deployed', 'insufficient_funds']
  test.each<[string, (genuine: Hex) => string, Partial<SignedTerms>, string]>([
    ['of a contract without USDC (EIP-1271)', (genuine) => genuine, { payer: DEVNET_ADDRESSES.usdc }, unfunded],
    ['after a validator’s address (ERC-7579)', (genuine) => `0x${'ab'.repeat(20)}${genuine.slice(2)}`, {}, undeployed],
    ['of a wallet that nobody funded (ERC-6492)', wrapUndeployed, { payer: `0x${'ab'.repeat(20)}` }, unfunded],
    ['of an undeployed wallet (ERC-6492)', () => wrapUndeployed(`0x${'ab'.repeat(65)}`), {}, undeployed],
    ['wrapped by a multi-owner wallet', wrapMultiOwner, {}, undeployed],
    ['in the compact form (EIP-2098)', toCompactForm, {}, invalid],
    ['with the mirrored s (EIP-2)', withMirroredS, {}, invalid],
    ['with a v of 0 or 1', (genuine) => `${genuine.slice(0, -2)}0${genuine.endsWith('1b') ? 0 : 1}`, {}, invalid],
    ['of the largest accepted size', () => `0x${'ab'.repeat(4096)}`, {}, undeployed],
  ])('answers 402 to a signature %s', async (_, wrap, terms, code) => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer, { terms })
    const signature = wrap(String(valueAt(signed, 'payload.signature')) as Hex)
    await expectRefused(await sendPayment(idempotencyKey, withValue(signed, 'payload.signature', signature)), code)
  })
})

describe('unusual but valid payments', () => {
  test('charges a payment whose signature is wrapped without need (ERC-6492)', async () => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer)
    const wrapped = wrapUndeployed(String(valueAt(signed, 'payload.signature')) as Hex)
    expect((await sendPayment(idempotencyKey, withValue(signed, 'payload.signature', wrapped))).status).toBe(200)
  })

  test.each(HUGE_NUMBERS.map((deadline) => [deadline]))(
    'charges, records and replays a payment with a deadline of %d',
    async (deadline) => {
      const { idempotencyKey, required } = await challenge()
      const signed = await signCustomPayment(required, payer, { terms: { deadline } })
      const paid = await sendPayment(idempotencyKey, signed)
      const body = await paid.text()
      expect({ status: paid.status, body }).toMatchObject({ status: 200 })
      const again = await sendPayment(idempotencyKey, signed)
      expect({ status: again.status, body: await again.text() }).toEqual({ status: 200, body })
      const [row] = await sandbox.sql<{ signed: string; stored: string }>(
        `SELECT authorizations.signed ->> 'deadline' AS signed, extract(year FROM deadline AT TIME ZONE 'UTC')::text AS stored
       FROM jobs JOIN authorizations ON authorizations.id = authorization_id WHERE idempotency_key = $1`,
        [idempotencyKey],
      )
      expect(row).toEqual({ signed: deadline.toString(), stored: '9999' })
    },
  )
  test.each(HUGE_NUMBERS.map((deadline) => [deadline]))(
    'charges a payment and a permit with a deadline of %d',
    async (deadline) => {
      const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
      const { idempotencyKey, required } = await challenge()
      const signed = await signCustomPayment(required, owner, { terms: { deadline }, permit: {} })
      const paid = await sendPayment(idempotencyKey, signed)
      expect({ status: paid.status, body: await paid.text() }).toMatchObject({ status: 200 })
    },
  )
  test.each<[string, (payment: CustomPayment) => CustomPayment]>([
    ['addresses in upper case', (payment) => changeHex(payment, (hex) => `0x${hex.slice(2).toUpperCase()}`)],
    ['addresses in lower case', (payment) => changeHex(payment, (hex) => hex.toLowerCase())],
    ['no echoed resource', (payment) => withValue(payment, 'resource', undefined)],
    ['an unknown extension', (payment) => ({ ...payment, extensions: { anything: [{ at: ['all', 5] }] } })],
    ['an additional member of extra', (payment) => withValue(payment, 'accepted.extra.note', 'x')],
    ['its members in another order', (payment) => Object.fromEntries(Object.entries(payment).toReversed())],
  ])('charges a payment with %s', async (_, change) => {
    const { idempotencyKey, required } = await challenge()
    const paid = await sendPayment(idempotencyKey, change(await signCustomPayment(required, payer)))
    expect({ status: paid.status, body: await paid.text() }).toMatchObject({ status: 200 })
  })
  test('replays the result to its payer whatever terms the payment echoes', async () => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer)
    const body = await (await sendPayment(idempotencyKey, signed)).text()
    const again = await sendPayment(idempotencyKey, withValue(signed, 'resource.url', 'https://elsewhere.test/'))
    expect({ status: again.status, body: await again.text() }).toEqual({ status: 200, body })
  })
})
