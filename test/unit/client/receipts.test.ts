import { sign } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { inputTokenBound } from '#shared/operations/text/text-tokens.ts'
import type { PaidCall, Payment, PaymentContext } from '../../../client/payment/paid-call.ts'
import { payCall } from '../../../client/payment/pay-call.ts'
import { prepareJsonCall, prepareTranscription } from '../../../client/payment/prepare-call.ts'
import type { ReceiptContext } from '../../../client/receipts/check-receipt.ts'
import {
  checkPayment,
  checkResultDigest,
  checkSignature,
  checkTransfer,
} from '../../../client/receipts/check-receipt.ts'
import { checkUsage, mostInputTokens, type SentCall } from '../../../client/receipts/check-usage.ts'
import { PaymentVerifier, type VerificationTime } from '../../../client/receipts/payment-verifier.ts'
import { readReceipt } from '../../../client/receipts/read-receipt.ts'
import { ReceiptStore } from '../../../client/receipts/receipt-store.ts'
import { SigningKeys } from '../../../client/receipts/signing-keys.ts'
import type { Receipt } from '../../../client/wire/schemas.ts'
import { checkCharge, checkMaximum } from '../../../packages/receipts/check-charge.ts'
import { createKeys, KID, receiptOf, signReceipt } from '../../support/client/receipts.ts'
import {
  callOf,
  challenged,
  charged,
  composePayments,
  ORIGIN,
  type Step,
} from '../../support/client/scripted-service.ts'
import { generateMp3 } from '../../support/media/mp3-generator.ts'

const failuresOf = (receipt: Receipt) =>
  [checkMaximum(receipt), ...checkCharge(receipt)]
    .filter(({ outcome }) => outcome === 'failed')
    .map(({ check }) => check)
const calculation = receiptOf().calculation as NonNullable<Receipt['calculation']>
const [line] = calculation.lines
const { privateKey, key } = createKeys()
const RECEIPT_ID = receiptOf().id
const WAITS = { patienceMs: 0, timeoutMs: 20 }
interface Other {
  readonly answered?: Step
  /** `null` is never answered. */
  readonly keys?: () => Response | null
  readonly call?: Partial<PaidCall>
}
/** A request that is never answered. */
function unanswered(init: RequestInit | undefined): Promise<Response> {
  return new Promise((_resolve, reject) => {
    init?.signal?.addEventListener('abort', () => reject(new Error('aborted')))
  })
}
/** Pays for a call of a service that shows its receipt in a certain way. */
async function pay(
  showReceipt: (payer: string) => Response | Error | null,
  time: VerificationTime = 'at_once',
  { answered = charged('5034', RECEIPT_ID), keys = () => Response.json({ keys: [key] }), call = {} }: Other = {},
) {
  const steps: Step[] = [challenged(), answered]
  const { context, journal } = composePayments(steps, { session: '1' })
  const asked: string[] = []
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input)
    asked.push(pathname)
    if (pathname === '/.well-known/jwks.json') return keys() ?? (await unanswered(init))
    if (!pathname.startsWith('/v1/receipts/')) return await context.fetch(input, init)
    const answer = showReceipt(context.payer)
    if (answer instanceof Error) throw answer
    return answer ?? (await unanswered(init))
  }
  const receipts: ReceiptContext = {
    ...context,
    fetch,
    baseUrl: ORIGIN,
    keys: new SigningKeys({ fetch, now: context.now }, ORIGIN, WAITS),
    store: new ReceiptStore(null),
    node: () => Promise.resolve(null),
  }
  const verified: Payment[] = []
  const verifier = new PaymentVerifier(receipts, time, (payment) => verified.push(payment), WAITS)
  const paying: PaymentContext = { ...context, fetch, verify: (paid, call) => verifier.after(paid, call) }
  const { payment, answer } = await payCall(paying, callOf(call))
  await verifier.settled()
  return { payment, answer, verified, asked, attempt: journal.attempts.get('key-1') }
}
function signStatement(statement: object): { readonly signature: string } {
  const [head, body] = [{ alg: 'EdDSA', kid: KID }, statement].map((each) =>
    Buffer.from(JSON.stringify(each)).toString('base64url'),
  )
  return {
    signature: `${head}.${body}.${sign(null, Buffer.from(`${head}.${body}`), privateKey).toString('base64url')}`,
  }
}
/** Answers with a statement of delivery of a certain form. */
const chargedWithStatement =
  (statement: Record<string, unknown>): Step =>
  (request) => {
    const answer = charged('5034', RECEIPT_ID)(request) as Response
    const settled = JSON.parse(Buffer.from(answer.headers.get('payment-response') ?? '', 'base64').toString()) as object
    const extensions = { 'offer-receipt': { info: { receipt: { format: 'jws', ...statement } } } }
    const header = Buffer.from(JSON.stringify({ ...settled, extensions })).toString('base64')
    answer.headers.set('payment-response', header)
    return answer
  }
const BODY = JSON.stringify({ ok: true })
const genuine = (payer: string) =>
  Response.json(
    signReceipt(
      receiptOf({
        payer,
        pay_to: `0x${'1'.repeat(40)}`,
        asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
        transaction: '0xaa',
        settlement: { state: 'confirmed', transaction: '0xaa', block_number: '1' },
        result_digest: '4062edaf750fb8074e7e83e0c9028c94e32468a8b6f1614774328ef045150f93',
      }),
      privateKey,
    ),
  )
const refusal = (status: number, code: string) =>
  Response.json(
    { type: 'error', error: { type: 'x', message: 'No.', param: null, code, payment: 'none', retry: 'never' } },
    { status },
  )

describe('the arithmetic of a receipt', () => {
  it('a charge that follows from usage and prices passes', () => {
    expect(failuresOf(receiptOf())).toEqual([])
  })

  it.each<[string, Partial<Receipt>, readonly string[]]>([
    [
      'a charge above the authorized maximum',
      { authorized_maximum_atomic: '5033' },
      ['maximum', 'calculation', 'charge'],
    ],
    ['a charge above the quoted maximum', { quoted_maximum_atomic: '5033' }, ['maximum', 'calculation', 'charge']],
    [
      'a charge one unit higher',
      { charge_atomic: '5035', quoted_maximum_atomic: '9999', authorized_maximum_atomic: '9999' },
      ['calculation', 'charge'],
    ],
    ['less usage than was charged', { usage: { input_audio_ms: 99_999 } }, ['calculation']],
    ['an amount that is not the atomic one', { charge_usdc: '0.005033' }, ['charge']],
    ['a price without a known unit', { unit_prices: { price_per_moon_usd: '1' } }, ['charge']],
    ['no price at all', { unit_prices: { minimum_charge_usd: '0.005034' } }, ['charge']],
    ['usage that is not measured', { usage: {} }, ['charge']],
    ['a sum that is not the sum', { calculation: { ...calculation, sum_usd: '1' } }, ['calculation']],
    ['a step that was rounded down', { calculation: { ...calculation, rounded_atomic: '3388' } }, ['calculation']],
    [
      'other units in a line',
      { calculation: { ...calculation, lines: [{ ...line, per_units: '1' } as never] } },
      ['calculation'],
    ],
    ['no line for a price', { calculation: { ...calculation, lines: [] } }, ['calculation']],
  ])('%s fails', (_name, changes, failures) => {
    expect(failuresOf(receiptOf(changes))).toEqual(failures)
  })

  it('a receipt without a calculation is recomputed all the same', () => {
    const { calculation: _, ...others } = receiptOf()
    const checks = checkCharge(others)
    expect(checks.map(({ check, outcome }) => `${check} ${outcome}`)).toEqual(['calculation skipped', 'charge passed'])
  })

  it('exactly one charge passes for any tokens and prices', () => {
    const price = fc
      .nat(9_999_999)
      .map((units) => ({ units, text: `${Math.floor(units / 1e6)}.${String(units % 1e6).padStart(6, '0')}` }))
    fc.assert(
      fc.property(
        fc.nat(2_000_000),
        fc.nat(200_000),
        price,
        price,
        fc.integer({ min: -2, max: 2 }),
        (input, output, inputPrice, outputPrice, off) => {
          // Prices are per million tokens, and a dollar has a million atomic units: the two cancel out.
          const millionths = BigInt(input) * BigInt(inputPrice.units) + BigInt(output) * BigInt(outputPrice.units)
          const right = (millionths + 999_999n) / 1_000_000n
          const stated = right + BigInt(off) < 0n ? 0n : right + BigInt(off)
          const atomic = stated.toString()
          const receipt = receiptOf({
            usage: { input_tokens: input, output_tokens: output },
            unit_prices: {
              input_per_million_tokens_usd: inputPrice.text,
              output_per_million_tokens_usd: outputPrice.text,
              // Receipts of earlier versions have the most that a request could use here, and no calculation.
              maximum_input_tokens: 2_000_000,
              maximum_output_tokens: 200_000,
            },
            charge_atomic: atomic,
            charge_usdc: `${stated / 1_000_000n}.${(stated % 1_000_000n).toString().padStart(6, '0')}`,
            quoted_maximum_atomic: '99999999999999',
            authorized_maximum_atomic: '99999999999999',
            calculation: undefined,
          })
          expect(failuresOf(receipt)).toEqual(stated === right ? [] : ['charge'])
        },
      ),
      { numRuns: 1000 },
    )
  })
})

describe('the signature of a receipt', () => {
  const { privateKey, key } = createKeys()
  const keys = {
    url: 'https://farebox.example/.well-known/jwks.json',
    find: async (kid: string) => (kid === KID ? key : undefined),
  }

  it('passes for what was signed, and fails when any member was changed or added', async () => {
    const signed = signReceipt(receiptOf(), privateKey)
    expect(await checkSignature(signed, keys)).toMatchObject({ outcome: 'passed' })
    for (const name of Object.keys(signed).filter((each) => each !== 'signature'))
      expect(await checkSignature({ ...signed, [name]: 'changed' }, keys)).toMatchObject({ outcome: 'failed' })
    expect(await checkSignature({ ...signed, added: 1 } as Receipt, keys)).toMatchObject({ outcome: 'failed' })
  })

  it('fails for the key of another service, for one that is not listed, and for another kind of statement', async () => {
    const foreign = signReceipt(receiptOf(), createKeys().privateKey)
    expect(await checkSignature(foreign, keys)).toMatchObject({ outcome: 'failed' })
    const unlisted = signReceipt(receiptOf(), privateKey, {
      alg: 'EdDSA',
      kid: 'did:web:b.example#k1',
      typ: 'farebox-receipt',
    })
    expect((await checkSignature(unlisted, keys)).detail).toContain('does not list')
    for (const header of [
      { alg: 'EdDSA', kid: KID },
      { alg: 'none', kid: KID, typ: 'farebox-receipt' },
      { alg: 'EdDSA', typ: 'farebox-receipt' },
    ])
      expect(await checkSignature(signReceipt(receiptOf(), privateKey, header), keys)).toMatchObject({
        outcome: 'failed',
      })
    for (const signature of ['', '..', 'a.b.c', 'x..y', 'x'])
      expect(await checkSignature(receiptOf({ signature }), keys)).toMatchObject({ outcome: 'failed' })
  })
})

describe('the payment of a receipt', () => {
  const known = {
    payer: `0x${'a'.repeat(40)}`,
    terms: { network: 'eip155:8453', asset: `0x${'c'.repeat(40)}`, payTo: `0x${'b'.repeat(40)}` },
    answered: { charge: 5034n, transaction: `0x${'d'.repeat(64)}`, maxima: [5034n], gasMinimum: 3492n },
  }

  it('passes when it is what was signed and answered', () => {
    expect(checkPayment(receiptOf(), known)).toMatchObject({ outcome: 'passed' })
  })

  it.each<[string, Partial<Receipt>]>([
    ['payer', { payer: `0x${'9'.repeat(40)}` }],
    ['network', { network: 'eip155:1' }],
    ['asset', { asset: `0x${'9'.repeat(40)}` }],
    ['recipient', { pay_to: `0x${'9'.repeat(40)}` }],
    ['charge', { charge_atomic: '5033' }],
    ['authorized maximum', { authorized_maximum_atomic: '9999' }],
    ['transaction', { transaction: '0x1', settlement: { state: 'final', transaction: '0x2', block_number: '1' } }],
  ])('another %s fails and is named', (name, changes) => {
    const check = checkPayment(receiptOf(changes), known)
    expect(check.outcome).toBe('failed')
    expect(check.detail).toContain(`its ${name} is`)
  })

  it.each([
    ['0.003492', 'passed'],
    ['0.002', 'passed'],
    ['0.003493', 'failed'],
    ['1e3', 'failed'],
    [3, 'failed'],
  ])('a minimum for gas of %s passes only up to what was offered: %s', (gas_minimum_charge_usd, outcome) => {
    const receipt = receiptOf({ unit_prices: { ...receiptOf().unit_prices, gas_minimum_charge_usd } })
    expect(checkPayment(receipt, known)).toMatchObject({ outcome })
  })

  it('passes for any of the payments that were signed under its key', () => {
    const answered = { ...known.answered, maxima: [6000n, 5034n] }
    expect(checkPayment(receiptOf(), { ...known, answered })).toMatchObject({ outcome: 'passed' })
    expect(checkPayment(receiptOf({ authorized_maximum_atomic: '5500' }), { ...known, answered })).toMatchObject({
      outcome: 'failed',
    })
  })

  it('a transaction that took its place after a reorganization passes', () => {
    const settlement = { state: 'final', transaction: known.answered.transaction, block_number: '2' } as const
    expect(checkPayment(receiptOf({ transaction: '0x1', settlement }), known)).toMatchObject({ outcome: 'passed' })
  })

  it('the answer must have its digest', () => {
    expect(checkResultDigest(receiptOf(), new Uint8Array())).toMatchObject({ outcome: 'passed' })
    expect(checkResultDigest(receiptOf(), new Uint8Array([1]))).toMatchObject({ outcome: 'failed' })
  })

  it('a charge that a reorganization removed fails, and one of zero needs no transfer', async () => {
    const lost = { state: 'lost', transaction: '0x1', block_number: '1' } as const
    expect(await checkTransfer(receiptOf({ settlement: lost }), null)).toMatchObject({ outcome: 'failed' })
    expect(await checkTransfer(receiptOf({ charge_atomic: '0', transaction: '' }), null)).toMatchObject({
      outcome: 'passed',
    })
  })
})

const usageOf = async (usage: Receipt['usage'], call: SentCall | Promise<SentCall>) =>
  await checkUsage(receiptOf({ usage, calculation: undefined }), await call)
const jsonCall = (body: object): SentCall => ({
  headers: { 'Content-Type': 'application/json' },
  body: () => new TextEncoder().encode(JSON.stringify(body)),
})

/** Compares the client's maximum of a chat request with the service's. */
function requireEnough(sent: object): void {
  const { request } = chatCompletions.effectiveRequest(chatCompletions.bodySchema.parse(sent), null, publishedCatalog)
  expect(inputTokenBound(request)).toBeLessThanOrEqual(mostInputTokens(JSON.stringify(sent)))
}

describe('the usage of a receipt, held against what was sent', () => {
  const SERVICE = 'https://farebox.example'
  const model = 'textmodel-2.5-pro'
  const chat = { model, messages: [{ role: 'user', content: 'How late is it?' }] } as const
  const speech = { model: 'speechvendor/flash-v2.5', input: 'Ünïcödé 🚋' } as const
  const mp3 = generateMp3({ durationMs: 1500, seed: 'usage' })
  const form = () => {
    const fields = new FormData()
    fields.set('file', new Blob([new Uint8Array(mp3)]), 'a.mp3')
    return new Response(fields)
  }

  it.each<[string, Receipt['usage'], () => SentCall | Promise<SentCall>, string | null]>([
    [
      'as many tokens as bytes',
      { input_tokens: 80 },
      () => prepareJsonCall(SERVICE, 'createChatCompletion', chat, {}),
      null,
    ],
    ['more tokens than bytes', { input_tokens: 9000 }, () => jsonCall(chat), 'charges 9000 input tokens'],
    [
      'the characters of a text',
      { input_characters: 9 },
      () => prepareJsonCall(SERVICE, 'createSpeech', speech, {}),
      null,
    ],
    ['a character more', { input_characters: 10 }, () => jsonCall(speech), 'counts 10 characters, and 9 were sent'],
    [
      'the duration of a recording in a form',
      { input_audio_ms: 1516 },
      () => prepareTranscription(SERVICE, { file: mp3 }, {}),
      null,
    ],
    [
      'another duration of a form that an SDK wrote',
      { input_audio_ms: 1517 },
      async () => {
        const written = form()
        const bytes = new Uint8Array(await written.arrayBuffer())
        return { headers: Object.fromEntries(written.headers), body: () => bytes }
      },
      'counts 1517 milliseconds of audio, and 1516 were sent',
    ],
    [
      'another duration of a recording in JSON',
      { input_audio_ms: 2000 },
      () => jsonCall({ audio_base64: Buffer.from(mp3).toString('base64') }),
      'and 1516 were sent',
    ],
    [
      'another duration than was measured for the price',
      { input_audio_ms: 1516 },
      () => ({ ...jsonCall({}), audioMs: 1400 }),
      'and 1400 were sent',
    ],
  ])('%s', async (_, usage, call, problem) => {
    expect(await usageOf(usage, call())).toMatchObject({
      name: 'usage',
      outcome: problem === null ? 'passed' : 'failed',
      detail: expect.stringContaining(problem ?? ''),
    })
  })

  it('tokens beyond the maximum of the quote are not held against the service, since they are not charged', async () => {
    const [first] = calculation.lines
    const lines = [{ ...(first as object), usage: 'input_tokens', unit: 'token', measured: 9000, quantity: '80' }]
    const receipt = receiptOf({ usage: { input_tokens: 9000 }, calculation: { ...calculation, lines: lines as never } })
    expect(await checkUsage(receipt, jsonCall(chat))).toMatchObject({ outcome: 'passed' })
    // The service takes members that are no lists, which have no items.
    for (const functions of [{}, null])
      expect(mostInputTokens(JSON.stringify({ ...chat, functions }))).toBeGreaterThan(0)
  })

  it('is skipped where what was sent cannot be read again', async () => {
    const lost: SentCall = { headers: {}, body: () => Promise.reject(new Error('gone')) }
    for (const usage of [{ input_tokens: 1 }, { input_characters: 1 }, { input_audio_ms: 1 }])
      expect(await usageOf(usage, lost)).toMatchObject({ outcome: 'skipped' })
  })

  it('has a maximum for any text request that no honest service exceeds', () => {
    const text = fc.string({ unit: 'binary', maxLength: 60 }).map((some) => some.toWellFormed().replaceAll('\0', ''))
    const tool = fc.record({ name: fc.constant('f'), description: text, parameters: fc.dictionary(text, text) })
    const part = fc.oneof(
      fc.record({ type: fc.constant('text' as const), text }),
      fc.constant({ type: 'image_url' as const, image_url: { url: 'https://cats.example/1.png' } }),
    )
    const message = fc.oneof(
      fc.record({
        role: fc.constantFrom('user', 'system', 'tool', 'assistant'),
        content: fc.oneof(text, fc.array(part)),
      }),
      fc.record({
        role: fc.constant('assistant'),
        content: fc.constant(null),
        tool_calls: fc.array(fc.record({ id: text, function: fc.record({ name: text, arguments: text }) }), {
          minLength: 1,
        }),
      }),
    )
    const format = fc.record({
      type: fc.constant('json_schema'),
      json_schema: fc.record({ schema: fc.dictionary(text, text), description: text }),
    })
    const body = fc.record(
      {
        messages: fc.array(message, { minLength: 1, maxLength: 6 }),
        tools: fc.array(
          tool.map((definition) => ({ type: 'function', function: definition })),
          { maxLength: 3 },
        ),
        response_format: format,
      },
      { requiredKeys: ['messages'] },
    )
    fc.assert(
      fc.property(body, (some) => requireEnough({ model, ...some, messages: [...chat.messages, ...some.messages] })),
      { numRuns: 500 },
    )
    const shortest = { type: 'function', function: { name: 'f' } }
    requireEnough({ ...chat, tools: Array.from({ length: 200 }, () => shortest) })
    requireEnough({
      model,
      messages: [...chat.messages, ...Array.from({ length: 2000 }, () => ({ role: '', content: '' }))],
    })
  })
})

describe('the form of a receipt', () => {
  it('what is no receipt is refused, whatever member is missing or wrong', () => {
    for (const value of [null, 1, 'x', [], {}, { object: 'list' }])
      expect(() => readReceipt(value, 'It')).toThrow(expect.objectContaining({ code: 'not_a_receipt' }))
    for (const name of Object.keys(receiptOf()).filter(
      (each) =>
        ![
          'calculation',
          'currency',
          'catalog_version',
          'price_version',
          'request_digest',
          'accepted_at',
          'settled_at',
        ].includes(each),
    )) {
      expect(() => readReceipt({ ...receiptOf(), [name]: 7 }, 'It')).toThrow(
        expect.objectContaining({ code: 'not_a_receipt' }),
      )
    }
  })
})

describe('the receipt of a payment', () => {
  it('one that fits the payment passes, and the journal has the verdict', async () => {
    const { payment, attempt } = await pay(genuine)
    expect(payment).toMatchObject({ verified: 'passed', problems: [] })
    expect(attempt).toMatchObject({ phase: 'verified', verification: 'passed', model: 'speechvendor/scribe-v2' })
  })

  it('one that charges for more than was sent fails, although the service signed it', async () => {
    const { payment } = await pay(genuine, 'at_once', { call: { audioMs: 99_000 } })
    expect(payment).toMatchObject({
      verified: 'failed',
      problems: ['usage: it counts 100000 milliseconds of audio, and 99000 were sent'],
    })
    expect((await pay(genuine, 'at_once', { call: { audioMs: 100_000 } })).payment.verified).toBe('passed')
  })

  it('one about another payment fails, what differs is named, and the result is returned', async () => {
    const { payment, answer, attempt } = await pay(() => Response.json(signReceipt(receiptOf(), privateKey)))
    expect(payment.verified).toBe('failed')
    expect(payment.problems.join()).toMatch(/payment: its payer is 0xa+, not 0x/)
    expect(payment.problems.join()).toMatch(/result: its digest/)
    expect(new TextDecoder().decode(answer.body)).toBe(BODY)
    expect(attempt).toMatchObject({ verification: 'failed', charged: 5034n, open: null })
  })

  it.each<[string, () => Response]>([
    ['one that the service does not know', () => refusal(404, 'not_found')],
    ['one with another id', () => Response.json({ ...receiptOf(), id: 'another' })],
    ['something else in its place', () => Response.json({ object: 'list' })],
  ])('%s fails', async (_name, show) => {
    const { payment, attempt } = await pay(show)
    expect(payment.verified).toBe('failed')
    expect(payment.problems).toHaveLength(1)
    expect(attempt?.verification).toBe('failed')
  })

  it.each<[string, () => Response | Error]>([
    ['a receipt that is refused for the moment', () => refusal(403, 'forbidden')],
    ['keys that are not published', () => new Response('x')],
  ])('%s is not a verdict', async (_name, show) => {
    const { payment, attempt } = await pay(show)
    expect(payment).toMatchObject({ verified: 'not_checked', problems: [expect.stringContaining('not be checked')] })
    expect(attempt?.verification).toBe('none')
  })

  it.each<VerificationTime>(['at_once', 'later'])('%s: a statement of another form loses no result', async (time) => {
    const { answer, verified } = await pay(genuine, time, { answered: chargedWithStatement({ signature: 5 }) })
    expect(new TextDecoder().decode(answer.body)).toBe(BODY)
    expect(verified.map((each) => each.verified)).toEqual(['failed'])
  })

  it.each<VerificationTime>(['at_once', 'later'])(
    '%s: a signed statement that is none loses no result',
    async (time) => {
      const { signature } = signStatement({})
      const { answer, verified } = await pay(genuine, time, { answered: chargedWithStatement({ signature }) })
      expect(new TextDecoder().decode(answer.body)).toBe(BODY)
      expect(verified.map((each) => each.verified)).toEqual(['failed'])
    },
  )

  it('a service that never answers for it does not hold the result back', async () => {
    const late = { problems: [expect.stringMatching(/could not be checked: .*[^.]$/)], verified: 'not_checked' }
    expect((await pay(() => null)).payment).toMatchObject(late)
    expect((await pay(genuine, 'at_once', { keys: () => null })).payment).toMatchObject(late)
  })

  it('later: the call returns first, and the verdict comes to the listener', async () => {
    const { payment, verified } = await pay(genuine, 'later')
    expect(payment.verified).toBe('not_checked')
    expect(verified.map((each) => each.verified)).toEqual(['passed'])
  })

  it('never: nothing is asked for', async () => {
    const { asked } = await pay(genuine, 'never')
    expect(asked).toEqual(['/v1/chat/completions', '/v1/chat/completions'])
  })
})
