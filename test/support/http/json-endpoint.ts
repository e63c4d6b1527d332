import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../processes/test-sandbox.ts'
import { type ErrorBody, type ExpectedRefusal, expectErrorBody, expectNeverRetry } from './expect-refusal.ts'
import { type FormPart, MULTIPART_CONTENT_TYPE, multipartBody } from './multipart-body.ts'
import { sendRaw } from './raw-request.ts'

type Fields = Readonly<Record<string, unknown>>

export interface JsonEndpointOptions {
  readonly path: string
  readonly family: 'openai' | 'anthropic'
  /** Published bounds of one call, in decimal USD. */
  readonly bounds: readonly [minimum: string, maximum: string]
  /** A valid body of required fields only. */
  readonly valid: Fields
}

/** A JSON-only paid endpoint of a running sandbox, as tests of its input use it. */
export interface JsonEndpoint extends JsonEndpointOptions {
  sandbox(): SharedSandbox
  /** Returns the valid body with `changes`; `undefined` leaves a field out. */
  bodyWith(changes: Fields): Fields
  /** Sends text and bytes unchanged, and everything else as JSON. */
  send(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
  /** Asserts a refusal and returns its message. */
  expectRefused(body: unknown, expected: Refusal, headers?: Readonly<Record<string, string>>): Promise<string>
  /** Asserts a challenge and returns its maximum in atomic USDC. */
  expectChallenged(body: unknown, headers?: Readonly<Record<string, string>>): Promise<bigint>
  /** Registers the last test of a file that pays for nothing: no rejected request had an effect. */
  testNothingHappened(atLeast: number): void
}

export type Refusal = Omit<ExpectedRefusal, 'status'> & { readonly status?: number }

/** Uses the shared sandbox for the tests of the calling file. */
export function useJsonEndpoint(options: JsonEndpointOptions): JsonEndpoint {
  const { path, valid } = options
  const refusedKeys: string[] = []
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())

  const send: JsonEndpoint['send'] = (body, headers = {}) =>
    fetch(`${sandbox.info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'x-idempotency-key': randomUUID(), 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
    })
  return {
    ...options,
    sandbox: () => sandbox,
    bodyWith: (changes) => ({ ...valid, ...changes }),
    send,
    expectRefused: async (body, expected, headers = {}) => {
      const idempotencyKey = randomUUID()
      refusedKeys.push(idempotencyKey)
      const answer = await send(body, { 'x-idempotency-key': idempotencyKey, ...headers })
      const copy = answer.clone()
      await expectNeverRetry(answer, { status: 400, ...expected })
      expectRateLimitHeaders(answer, options.family)
      return ((await copy.json()) as ErrorBody).error.message
    },
    expectChallenged: async (body, headers) => {
      const answer = await send(body, headers)
      expect({ status: answer.status, body: answer.status === 402 ? '' : await answer.text() }).toEqual({
        status: 402,
        body: '',
      })
      expectRateLimitHeaders(answer, options.family)
      return expectChallenge(answer, options.bounds)
    },
    testNothingHappened: (atLeast) =>
      test('no rejected request calls the upstream, moves money, creates a job or binds its key', async () => {
        expect(refusedKeys.length).toBeGreaterThanOrEqual(atLeast)
        expect(await sandbox.upstreamCalls()).toEqual([])
        expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toEqual([])
        expect(
          await sandbox.sql('SELECT 1 FROM idempotency_keys WHERE idempotency_key = ANY($1)', [refusedKeys]),
        ).toEqual([])
        expect(await sandbox.added('jobs')).toBe(0)
      }),
  }
}

/** Asserts that the 402 body and its header state the same maximum, within the published bounds, and returns it. */
async function expectChallenge(answer: Response, [minimum, maximum]: JsonEndpointOptions['bounds']): Promise<bigint> {
  const body = (await answer.json()) as { price: { amount: string } }
  expect(body).toMatchObject({
    error: 'Payment Required',
    message: expect.any(String),
    price: { amount: expect.stringMatching(/^\d+(\.\d+)?$/), currency: 'USDC', type: 'maximum' },
    paymentInfo: { x402Version: 2, scheme: 'upto', network: 'eip155:8453', asset: expect.any(String) },
  })
  const [accepted] = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '').accepts
  const amount = atomicOf(body.price.amount)
  expect(BigInt(accepted?.amount ?? -1)).toBe(amount)
  expect(amount).toBeGreaterThanOrEqual(atomicOf(minimum))
  expect(amount).toBeLessThanOrEqual(atomicOf(maximum))
  return amount
}

function expectRateLimitHeaders(answer: Response, family: JsonEndpointOptions['family']): void {
  const names = { openai: 'x-ratelimit-remaining-requests', anthropic: 'anthropic-ratelimit-requests-remaining' }
  const other = family === 'openai' ? 'anthropic' : 'openai'
  expect(answer.headers.get(names[family])).toMatch(/^\d+$/)
  expect(answer.headers.get(names[other])).toBeNull()
}

/** Converts decimal dollars of at most six places to atomic USDC. */
export function atomicOf(dollars: string): bigint {
  const [whole = '', fraction = ''] = dollars.split('.')
  if (!/^\d+$/.test(whole) || !/^\d{0,6}$/.test(fraction)) throw new Error(`${dollars} is not an amount of USDC`)
  return BigInt(whole + fraction.padEnd(6, '0'))
}

export interface FieldRules {
  readonly name: string
  /** Title of the field's cases; by default its name. */
  readonly title?: string
  readonly required?: boolean
  readonly accepted: readonly unknown[]
  /** Each with what the message must contain in addition to the field, and the path of the fault when it is nested. */
  readonly refused: readonly (readonly [value: unknown, says: string, param?: string])[]
}

/** Registers a test for every value of every rule. */
export function describeFields(endpoint: JsonEndpoint, rules: readonly FieldRules[]): void {
  describe.each(rules.map((rule) => ({ title: rule.name, ...rule })))(
    '$title',
    ({ name, required = false, accepted, refused }) => {
      test.each(accepted.map((value) => [label(value), value]))('accepts %s', async (_, value) => {
        await endpoint.expectChallenged(endpoint.bodyWith({ [name]: value }))
      })
      test.each(refused.map(([value, says, param = name]) => [label(value), value, says, param] as const))(
        'rejects %s',
        async (_, value, says, param) => {
          const expected = { code: 'invalid_field', param, says: [param, says] }
          await endpoint.expectRefused(endpoint.bodyWith({ [name]: value }), expected)
        },
      )
      if (required)
        test('is required', async () => {
          const expected = { code: 'missing_field', param: name, says: [name, 'required'] }
          await endpoint.expectRefused(endpoint.bodyWith({ [name]: undefined }), expected)
        })
      else
        test('may be omitted', async () => {
          await endpoint.expectChallenged(endpoint.bodyWith({ [name]: undefined }))
        })
    },
  )
}

function label(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 100)}… (${text.length})` : text
}

/** Pairs each rejected value with a text that the message must contain. */
export function rejectedWith(says: string, ...values: readonly unknown[]): (readonly [unknown, string])[] {
  return values.map((value) => [value, says] as const)
}

/** Values of every JSON type except strings. */
export const NOT_TEXT = rejectedWith('must be a string', 5, true, null, ['x'], { x: 1 })

export interface SameRequestRules {
  /** Bodies that are the same effective request as the valid one. */
  readonly same: Readonly<Record<string, Fields>>
  /** Changes that make it another request. */
  readonly other: Readonly<Record<string, Fields>>
}

/** Registers the tests of body, content type and idempotency key that every JSON-only endpoint shares. */
export function describeJsonBody(endpoint: JsonEndpoint, { same, other }: SameRequestRules): void {
  const { valid, path, family } = endpoint
  const whole = JSON.stringify(valid)
  const model = JSON.stringify(valid['model'])
  const field: FormPart = { name: 'model', value: String(valid['model']) }

  describe('the JSON body', () => {
    test.each([
      ['empty', ''],
      ['only a space', ' '],
      ['cut off', whole.slice(0, -1)],
      ['followed by more', `${whole} {}`],
      ['with a trailing comma', `${whole.slice(0, -1)},}`],
      ['with single quotes', "{'model':1}"],
      ['with a comment', '{/* */}'],
      ['with a raw line break in a string', '{"model":"a\nb"}'],
      ['with NaN', '{"max_tokens":NaN}'],
      ['null', 'null'],
      ['an array', `[${whole}]`],
      ['a string', '"model"'],
      ['a number', '5'],
      ['true', 'true'],
      ['a form', multipartBody([field])],
      ['UTF-16', Buffer.from(whole, 'utf16le')],
      ['invalid UTF-8', Buffer.from(`{"model":${model},"x":"\xff\xfe"}`, 'latin1')],
      ['a surrogate written as UTF-8', Buffer.from(`{"model":${model},"x":"\xed\xa0\x80"}`, 'latin1')],
      ['nested 10,000 levels deep', `${whole.slice(0, -1)},"x":${'['.repeat(10_000)}${']'.repeat(10_000)}}`],
      ['100,000 open arrays', '['.repeat(100_000)],
    ])('rejects a body that is not a JSON object: %s', async (_, body) => {
      await endpoint.expectRefused(body, { code: 'invalid_json', param: null, says: ['JSON'] })
    })
    test('rejects five million open arrays without parsing them all', async () => {
      // Superlinear work on so many brackets would outlast the test.
      const answer = await endpoint.send('['.repeat(5_000_000))
      // 413 where no valid body is nearly as long.
      expect([400, 413]).toContain(answer.status)
      expect(await answer.json()).toMatchObject({ error: { payment: 'none', retry: 'never' } })
    })
    test.each([
      ['equal values', `{"model":${model},${whole.slice(1)}`],
      ['different values', `{"model":5,${whole.slice(1)}`],
      ['another spelling of the key', `{"mod\\u0065l":${model},${whole.slice(1)}`],
    ])('rejects a duplicate key: %s', async (_, body) => {
      await endpoint.expectRefused(body, { code: 'duplicate_field', param: 'model', says: ['model'] })
    })
    test('rejects a nested duplicate key', async () => {
      const body = `${whole.slice(0, -1)},"x":[{"deep":1,"deep":2}]}`
      await endpoint.expectRefused(body, { code: 'duplicate_field', param: 'deep', says: ['deep'] })
    })
    test('rejects a body larger than any valid one before it has arrived', async () => {
      const { answer } = await sendRaw(endpoint.sandbox().info.baseUrl, {
        path,
        headers: [
          ['x-idempotency-key', randomUUID()],
          ['content-type', 'application/json'],
          ['content-length', '100000000'],
        ],
        body: [Buffer.from('{')],
      })
      await expectNeverRetry(answer, { status: 413, code: 'body_too_large', param: null })
    })
  })

  describe('the content type', () => {
    test.each([
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/octet-stream',
      'application/problem+json',
      'application/jsonp',
      'json',
    ])('answers %s with 415', async (contentType) => {
      const expected = { status: 415, code: 'unsupported_content_type', param: null, says: ['application/json'] }
      await endpoint.expectRefused(whole, expected, { 'content-type': contentType })
    })
    test('answers multipart/form-data with 415 and does not recommend it', async () => {
      const expected = { status: 415, code: 'unsupported_content_type', param: null, says: ['application/json'] }
      const headers = { 'content-type': MULTIPART_CONTENT_TYPE }
      expect(await endpoint.expectRefused(multipartBody([field]), expected, headers)).not.toContain('multipart')
    })
    test.each(['application/json; charset=utf-8', 'Application/JSON'])('accepts %s', async (contentType) => {
      await endpoint.expectChallenged(whole, { 'content-type': contentType })
    })
  })

  describe('the idempotency key', () => {
    test.each([
      ['two words', 'two words'],
      ['256 characters', 'k'.repeat(256)],
      ['nothing', ''],
    ])('rejects an idempotency key of %s', async (_, key) => {
      await endpoint.expectRefused(
        whole,
        { code: 'invalid_idempotency_key', param: 'x-idempotency-key', says: ['x-idempotency-key', '255'] },
        { 'x-idempotency-key': key },
      )
    })
    // Tests of other endpoints bind their own keys in the same sandbox.
    const initial = path.charAt('/v1/'.length)
    test.each([initial, initial.repeat(255)])(
      'accepts an idempotency key of 1 and of 255 characters (%#)',
      async (key) => {
        await endpoint.expectChallenged(whole, { 'x-idempotency-key': key })
      },
    )
    test('requires the idempotency key, even with an invalid body [spec L1b]', async () => {
      for (const body of [whole, '{"model":5}', '[]', '{'.padEnd(65)]) {
        const answer = await fetch(`${endpoint.sandbox().info.baseUrl}${path}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
        })
        await expectNeverRetry(answer, {
          status: 400,
          code: 'missing_idempotency_key',
          param: 'x-idempotency-key',
          says: ['x-idempotency-key'],
        })
      }
    })
  })

  describe('one effective request', () => {
    const spellings = {
      'spacing and order': JSON.stringify(Object.fromEntries(Object.entries(valid).toReversed()), null, 2),
      escapes: whole.replaceAll('-', '\\u002d'),
      ...same,
    }
    test.each(Object.entries(spellings))(
      'accepts the same effective request under its key again: %s [spec L5b]',
      async (_, body) => {
        const key = { 'x-idempotency-key': randomUUID() }
        const sent = typeof body === 'string' ? body : endpoint.bodyWith(body)
        const maximum = await endpoint.expectChallenged(whole, key)
        expect(await endpoint.expectChallenged(sent, key)).toBe(maximum)
        expect(await endpoint.expectChallenged(whole, { ...key, accept: 'application/octet-stream' })).toBe(maximum)
      },
    )
    test.each(Object.entries(other))('rejects another %s under the same key [spec T5, F4]', async (_, changes) => {
      const key = { 'x-idempotency-key': randomUUID() }
      await endpoint.expectChallenged(whole, key)
      const answer = await endpoint.send(endpoint.bodyWith(changes), key)
      await expectNeverRetry(answer, {
        status: 409,
        code: 'idempotency_key_reused',
        param: 'x-idempotency-key',
        says: ['x-idempotency-key'],
      })
      await endpoint.expectChallenged(whole, key)
    })
  })

  describe('a payment header', () => {
    test.each(['!', 'e30', Buffer.from('{}').toString('base64'), Buffer.from('[').toString('base64')])(
      'rejects an unreadable payment header with 400: %s',
      async (header) => {
        const answer = await endpoint.send(whole, { 'payment-signature': header })
        const { error } = await expectErrorBody(answer, {
          status: 400,
          code: 'invalid_payment_header',
          param: 'PAYMENT-SIGNATURE',
        })
        expect(error).toMatchObject({ type: 'invalid_request_error', payment: 'none', retry: 'never' })
        expectRateLimitHeaders(answer, family)
      },
    )
    test('checks the body before the payment header', async () => {
      const headers = { 'payment-signature': '!' }
      await endpoint.expectRefused({}, { code: 'missing_field', param: 'model' }, headers)
    })
  })
}
