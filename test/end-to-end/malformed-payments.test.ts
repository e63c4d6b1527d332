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
import { DEVNET_ADDRESSES } from '../../infra/sandbox/devnet.ts'
import { expectNeverRetry } from '../support/http/expect-refusal.ts'
import { sendRaw } from '../support/http/raw-request.ts'
import {
  type CustomPayment,
  challengeOf,
  createPayer,
  type PermitTerms,
  paymentHeader,
  type SignedTerms,
  secondsFromNow,
  signCustomPayment,
  type TestPayer,
  valueAt,
  withValue,
} from '../support/payer/custom-payment.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'

const PATH = '/v1/chat/completions'
const BODY = { model: 'textmodel-3.5-flash', max_tokens: 16, messages: [{ role: 'user', content: 'Good evening.' }] }
const FAR = [2n ** 255n, 2n ** 256n - 1n] as const

let sandbox: SharedSandbox
/** Has approved Permit2. */
let payer: TestPayer
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

async function traces() {
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
    // Restarts and unexpected failures alike leave lines here.
    troubles: log.match(/listening on|unhandled|uncaught|TypeError|RangeError|"request failed"/gi)?.length,
    pid: sandbox.pidOf('api'),
  }
}

async function expectNoTraceSince(before: Awaited<ReturnType<typeof traces>>): Promise<void> {
  expect(await traces()).toEqual(before)
  process.kill(before.pid, 0)
}

let key: string
/** Perfectly valid, gas-sponsoring permit included; every case spoils one thing in it. */
let payment: CustomPayment

const signed = 'payload.permit2Authorization'
const permit = 'extensions.eip2612GasSponsoring.info'

async function spoil(path: string, values: readonly unknown[]): Promise<void> {
  for (const value of values) await expectMalformed(await sendPayment(key, withValue(payment, path, value)))
}

const nonce = () => String(valueAt(payment, `${signed}.nonce`))
const text = () => JSON.stringify(payment)

function withBytes(bytes: readonly number[]): Buffer {
  const [head = '', tail = ''] = text().split('"extensions":{', 2)
  return Buffer.concat([Buffer.from(`${head}"extensions":{"note":"`), Buffer.from(bytes), Buffer.from(`",${tail}`)])
}

function withLength(remainder: number): Buffer {
  for (let note = 'x'; ; note += 'x') {
    const bytes = Buffer.from(JSON.stringify({ ...payment, note }))
    if (bytes.length % 3 === remainder) return bytes
  }
}

function base64url(): string {
  const header = Buffer.from(JSON.stringify({ ...payment, note: '~~~???>>>' })).toString('base64url')
  expect(header).toMatch(/[-_]/)
  return header
}

describe('refused without a trace', () => {
  let before: Awaited<ReturnType<typeof traces>>
  beforeAll(async () => {
    const { idempotencyKey, required } = await challenge()
    key = idempotencyKey
    const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
    payment = await signCustomPayment(required, owner, { permit: {} })
  })
  beforeEach(async () => {
    before = await traces()
  })
  afterEach(async () => {
    await expectNoTraceSince(before)
  })

  const otherTypes = [undefined, null, 5, -1, 1.5, true, false, [], ['1'], {}, { value: '1' }]

  describe('one member spoilt: 400 invalid_payment_header', () => {
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
      ...['permitted.amount', 'nonce', 'deadline', 'witness.validAfter'].map((name) => `${signed}.${name}`),
      ...['amount', 'nonce', 'deadline'].map((name) => `${permit}.${name}`),
    ])('%s as anything but a plain decimal number of 256 bits in text', (path) =>
      spoil(path, [...otherTypes, ...notNumbers]),
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
      ...['from', 'permitted.token', 'spender', 'witness.to', 'witness.facilitator'].map((name) => `${signed}.${name}`),
      ...['from', 'asset', 'spender'].map((name) => `${permit}.${name}`),
    ])('%s as anything but 0x and 40 hexadecimal digits', (path) => spoil(path, [...otherTypes, ...notAddresses]))

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
    test('payload.signature as anything but 0x and whole bytes', () =>
      spoil('payload.signature', [...otherTypes, ...notBytes, `0x${'00'.repeat(4097)}`]))
    test('the permit’s signature as anything but 65 bytes on the curve', () =>
      spoil(`${permit}.signature`, [
        ...otherTypes.filter((value) => value !== undefined),
        ...notBytes,
        `0x${hex}`,
        `0x${hex}1b00`,
        `0x${hex}1d`,
        `0x${'00'.repeat(64)}1b`,
        `0x${'ff'.repeat(64)}1b`,
      ]))

    test.each(['x402Version', 'accepted', 'payload', signed, `${signed}.permitted`, `${signed}.witness`])(
      '%s as another type',
      (path) => spoil(path, [undefined, null, 5, 1.5, true, 'x', '2', [], [{}], {}]),
    )
    test.each(['resource', 'accepted.extra', 'extensions', 'extensions.eip2612GasSponsoring', permit])(
      '%s as another type, though it may be left out',
      (path) => spoil(path, [null, 5, true, 'x', []]),
    )
    test.each(['scheme', 'network', 'amount', 'asset', 'payTo'])('accepted.%s as another type', (name) =>
      spoil(`accepted.${name}`, otherTypes),
    )
    test('accepted.maxTimeoutSeconds as another type', () =>
      spoil('accepted.maxTimeoutSeconds', [undefined, null, '900', true, [], {}]))
    test('resource.url as another type', () => spoil('resource.url', otherTypes))
    test.each([signed, `${signed}.permitted`, `${signed}.witness`, 'payload'])('%s with a member too many', (path) =>
      spoil(`${path}.memo`, [null, 'x', {}]),
    )
  })

  describe('another JSON text: 400 invalid_payment_header', () => {
    test.each<[string, () => string]>([
      ['a repeated member of the envelope', () => text().replace('{', '{"x402Version":2,')],
      ['a repeated member of what is signed', () => text().replace('"nonce":', `"nonce":"${nonce()}","nonce":`)],
      ['a repeated member in another spelling', () => text().replace('"nonce":', '"\\u006eonce":"1","nonce":')],
      ['a repeated member of the permit', () => text().replace('"version":"1"', '"version":"1","version":"1"')],
      ['__proto__ in the envelope', () => text().replace('{', '{"__proto__":{"x402Version":2},')],
      ['__proto__ in what is signed', () => text().replace('"nonce":', '"__proto__":{"nonce":"1"},"nonce":')],
      ['__proto__ in place of the payload', () => text().replace('"payload":', '"__proto__":')],
      ['__proto__ in the accepted extra', () => text().replace('"extra":{', '"extra":{"__proto__":{"a":1},')],
      ['an escaped __proto__', () => text().replace('{', '{"\\u005f_proto__":{},')],
      ['constructor in what is signed', () => text().replace('"nonce":', '"constructor":{"prototype":{}},"nonce":')],
      ['an extension 4,000 levels deep', () => text().replace('"extensions":{', `"extensions":{"x":${deep(4000)},`)],
      ['an extension 100 levels deep', () => text().replace('"extensions":{', `"extensions":{"x":${deep(100)},`)],
      ['10,000 levels of nothing', () => '['.repeat(10_000)],
      ['something behind it', () => `${text()}{}`],
      ['a byte order mark before it', () => `\ufeff${text()}`],
      ['a comment', () => text().replace('{', '{/* */')],
      ['a trailing comma', () => `${text().slice(0, -1)},}`],
      ['NaN for a number', () => text().replace('"x402Version":2', '"x402Version":NaN')],
      ['1e400 for the version', () => text().replace('"x402Version":2', '"x402Version":1e400')],
      ['a list around it', () => `[${text()}]`],
      ['text around it', () => JSON.stringify(text())],
      ['a raw line break in a string', () => text().replace('"nonce":"', '"nonce":"\n')],
    ])('%s', async (_, spoilt) => {
      expect(spoilt()).not.toBe(text())
      await expectMalformed(await sendHeader(key, base64(spoilt())))
    })

    test.each<[string, () => Uint8Array]>([
      ['a byte that is no UTF-8, in an extension that nobody reads', () => withBytes([0xff])],
      ['a cut UTF-8 sequence', () => withBytes([0xe2, 0x82])],
      ['an overlong UTF-8 sequence', () => withBytes([0xc0, 0xaf])],
      ['a surrogate in UTF-8', () => withBytes([0xed, 0xa0, 0x80])],
      ['UTF-16', () => Buffer.from(text(), 'utf16le')],
      ['gzip’s first bytes', () => Buffer.from([0x1f, 0x8b, 8, 0])],
    ])('%s', async (_, bytes) => {
      await expectMalformed(await sendHeader(key, base64(bytes())))
    })
  })

  describe('another header', () => {
    test.each<[string, () => string]>([
      ['without its padding', () => withLength(2).toString('base64').replace(/=+$/, '')],
      ['with too much padding', () => `${withLength(0).toString('base64')}==`],
      ['with stray bits before the padding', () => withStrayBits(withLength(2).toString('base64'))],
      ['with a space in it', () => withLength(0).toString('base64').replace(/^..../, '$& ')],
      ['with a tab in it', () => withLength(0).toString('base64').replace(/^..../, '$&\t')],
      ['quoted', () => `"${withLength(0).toString('base64')}"`],
      ['with a scheme before it', () => `x402 ${withLength(0).toString('base64')}`],
      ['percent-encoded', () => encodeURIComponent(withLength(2).toString('base64'))],
      ['hexadecimal', () => Buffer.from('{"x402Version":2}').toString('hex')],
      ['URL-safe', () => base64url()],
      ['joined to itself by a comma', () => `${withLength(0).toString('base64')}, ${withLength(0).toString('base64')}`],
      ['JSON itself', () => JSON.stringify({ x402Version: 2 })],
    ])('%s: 400 invalid_payment_header', async (_, header) => {
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
      'sent again as %s: 400 duplicate_header, also when the second is empty or alike',
      async (name) => {
        const header = paymentHeader(payment)['payment-signature'] ?? ''
        for (const second of [header, '', 'x']) {
          const { answer } = await raw(length, ['payment-signature', header], [name, second])
          await expectNeverRetry(answer, { status: 400, code: 'duplicate_header', param: 'payment-signature' })
        }
      },
    )
    test('of 100 KB: 400 headers_too_large', async () => {
      const { answer } = await raw(length, ['payment-signature', 'A'.repeat(100_000)])
      await expectNeverRetry(answer, { status: 400, code: 'headers_too_large', param: null })
    })
    test('of bytes beyond ASCII: 400 invalid_payment_header', async () => {
      for (const byte of ['\u00e9', '\u00ff', '\u00a0']) {
        const { answer } = await raw(length, ['payment-signature', `${base64('{}')}${byte}${base64('{}')}`])
        await expectMalformed(answer)
      }
    })
    test('of a control character: 400 malformed_http', async () => {
      const { answer } = await raw(length, ['payment-signature', `${base64('{}')}\u0000`])
      await expectNeverRetry(answer, { status: 400, code: 'malformed_http', param: null })
    })
  })

  describe('echoing another challenge than the one given', () => {
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
    ])('%s of %j: 402 with its code', async (path, value, code) => {
      const { idempotencyKey, required } = await challenge()
      const changed = withValue(await signCustomPayment(required, payer), path, value)
      await expectRefused(await sendPayment(idempotencyKey, changed), code)
    })
    test('amount, asset, recipient or network with a digit changed at a time', async () => {
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
    test('the challenge of another key or of another operation: 409 challenge_mismatch', async () => {
      const mismatch = { status: 409, code: 'challenge_mismatch', param: null }
      const other = await challenge()
      const { idempotencyKey } = await challenge()
      await expectNeverRetry(
        await sendPayment(idempotencyKey, await signCustomPayment(other.required, payer)),
        mismatch,
      )
      // Chat and messages may have the same body and price; the challenge still knows them apart.
      const messages = await sandbox.post('/v1/messages', BODY)
      const required = challengeOf(messages)
      await expectNeverRetry(await sendPayment(idempotencyKey, await signCustomPayment(required, payer)), mismatch)
    })
  })

  test.each<[string, () => Partial<SignedTerms>, string]>([
    ['a deadline in the past', () => ({ deadline: secondsFromNow(-1) }), 'payment_expired'],
    ['a deadline of 0', () => ({ deadline: 0n }), 'payment_expired'],
    ['a deadline of 1', () => ({ deadline: 1n }), 'payment_expired'],
    ['a deadline too near', () => ({ deadline: secondsFromNow(300) }), 'payment_expired'],
    ['validAfter in the future', () => ({ validAfter: secondsFromNow(3600) }), 'payment_not_yet_valid'],
    ['validAfter of 2^255', () => ({ validAfter: FAR[0] }), 'payment_not_yet_valid'],
    ['both ends of time', () => ({ validAfter: FAR[1], deadline: FAR[1] }), 'payment_not_yet_valid'],
    ['the greatest amount', () => ({ amount: FAR[1] }), 'payment_amount_mismatch'],
    ['the zero address as payer', () => ({ payer: `0x${'0'.repeat(40)}` }), 'payment_signature_invalid'],
  ])('signed with %s: 402', async (_, terms, code) => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer, { terms: terms() })
    await expectRefused(await sendPayment(idempotencyKey, signed), code)
  })

  test.each<[string, Partial<PermitTerms>, string]>([
    ['nonce of 2^256 - 1', { nonce: FAR[1] }, 'payment_rejected'],
    ['amount of 2^256 - 1', { amount: FAR[1] }, 'payment_rejected'],
    ['amount of 0', { amount: 0n }, 'payment_rejected'],
    ['deadline of 0', { deadline: 0n }, 'payment_expired'],
  ])('a gas-sponsoring permit with a %s: 402', async (_, changes, code) => {
    const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, owner, { permit: changes })
    await expectRefused(await sendPayment(idempotencyKey, signed), code)
  })

  test.each<[string, (genuine: Hex) => string, Partial<SignedTerms>]>([
    ['of a contract wallet (EIP-1271)', (genuine) => genuine, { payer: DEVNET_ADDRESSES.usdc }],
    ['with a validator’s address before it (ERC-7579)', (genuine) => `0x${'ab'.repeat(20)}${genuine.slice(2)}`, {}],
    ['of a wallet not deployed yet (ERC-6492)', wrapped, { payer: `0x${'ab'.repeat(20)}` }],
    ['of an account wrapped all the same (ERC-6492)', wrapped, {}],
    ['wrapped by a multi-owner wallet', multiOwner, {}],
    ['in the compact form (EIP-2098)', compact, {}],
    ['of the largest size that is read', () => `0x${'ab'.repeat(4096)}`, {}],
  ])('a signature %s: 402 payment_signature_invalid', async (_, wrap, terms) => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer, { terms })
    const signature = wrap(String(valueAt(signed, 'payload.signature')) as Hex)
    await expectRefused(
      await sendPayment(idempotencyKey, withValue(signed, 'payload.signature', signature)),
      'payment_signature_invalid',
    )
  })
})

describe('unusual and good all the same', () => {
  test.each(FAR.map((deadline) => [deadline]))(
    'a deadline of %d is paid, recorded and answered again',
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
  test.each(FAR.map((deadline) => [deadline]))(
    'payment and permit with a deadline of %d are paid',
    async (deadline) => {
      const owner = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 1_000_000n, approved: false })
      const { idempotencyKey, required } = await challenge()
      const signed = await signCustomPayment(required, owner, { terms: { deadline }, permit: {} })
      const paid = await sendPayment(idempotencyKey, signed)
      expect({ status: paid.status, body: await paid.text() }).toMatchObject({ status: 200 })
    },
  )
  test.each<[string, (payment: CustomPayment) => CustomPayment]>([
    ['addresses in capitals', (payment) => changeHex(payment, (hex) => `0x${hex.slice(2).toUpperCase()}`)],
    ['addresses in lower case', (payment) => changeHex(payment, (hex) => hex.toLowerCase())],
    ['no resource', (payment) => withValue(payment, 'resource', undefined)],
    ['members that extensions may have', (payment) => ({ ...payment, extensions: { anything: [{ at: ['all', 5] }] } })],
    ['a richer extra', (payment) => withValue(payment, 'accepted.extra.note', 'x')],
    ['members in another order', (payment) => Object.fromEntries(Object.entries(payment).toReversed())],
  ])('%s', async (_, change) => {
    const { idempotencyKey, required } = await challenge()
    const paid = await sendPayment(idempotencyKey, change(await signCustomPayment(required, payer)))
    expect({ status: paid.status, body: await paid.text() }).toMatchObject({ status: 200 })
  })
  test('a replay needs no faithful echo: the result is the payer’s', async () => {
    const { idempotencyKey, required } = await challenge()
    const signed = await signCustomPayment(required, payer)
    const body = await (await sendPayment(idempotencyKey, signed)).text()
    const again = await sendPayment(idempotencyKey, withValue(signed, 'resource.url', 'https://elsewhere.test/'))
    expect({ status: again.status, body: await again.text() }).toEqual({ status: 200, body })
  })
})

function deep(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels)
}

/** Sets a bit that decoders drop. */
function withStrayBits(header: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  expect(header).toMatch(/[^=]=$/)
  const last = alphabet.indexOf(header.at(-2) ?? '')
  return `${header.slice(0, -2)}${alphabet[last | 1]}=`
}

function wrapped(signature: Hex): Hex {
  return serializeErc6492Signature({ address: `0x${'cd'.repeat(20)}`, data: '0x1234', signature })
}

function multiOwner(signature: Hex): Hex {
  const shape = [{ type: 'tuple', components: [{ type: 'uint256' }, { type: 'bytes' }] }] as const
  return encodeAbiParameters(shape, [[0n, signature]])
}

function compact(signature: Hex): Hex {
  return serializeCompactSignature(signatureToCompactSignature(parseSignature(signature)))
}

/** Everything in the payment that is hexadecimal, in another spelling. */
function changeHex(payment: CustomPayment, change: (hex: string) => string): CustomPayment {
  return JSON.parse(JSON.stringify(payment), (_, value: unknown) =>
    typeof value === 'string' && /^0x[0-9a-fA-F]+$/.test(value) ? change(value) : value,
  ) as CustomPayment
}
