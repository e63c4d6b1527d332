import { describe, expect, it } from 'vitest'
import { inTermsOfTools, readCallHeaders, requireUsable } from '../../../api/mcp/call-headers.ts'
import { readIdempotencyKey, readPaymentHeader } from '../../../api/request/headers.ts'

const newKey = () => 'new'
const payment = { x402Version: 2, extensions: { 'payment-identifier': { info: { id: 'of the payment' } } } }

describe('the headers of a tool call', () => {
  it('have the key of _meta', () => {
    expect(readCallHeaders({ 'farebox/idempotency-key': 'mine' }, newKey)).toMatchObject({
      'x-idempotency-key': 'mine',
    })
  })

  it('have a new key without key and payment, so that the challenge can name one', () => {
    expect(readIdempotencyKey(readCallHeaders({}, newKey))).toBe('new')
  })

  it('have no new key with a payment, which would be for another call', () => {
    expect(() => readIdempotencyKey(readCallHeaders({ 'x402/payment': {} }, newKey))).toThrow(
      expect.objectContaining({ code: 'missing_idempotency_key' }),
    )
  })

  it('have a payment that reads as it was sent, key included', () => {
    const headers = readCallHeaders({ 'x402/payment': payment }, newKey)
    expect(readPaymentHeader(headers)?.identifier).toBe('of the payment')
  })

  it('ask for JSON, whatever the client of the protocol accepts', () => {
    expect(readCallHeaders({}, newKey)).toMatchObject({ accept: 'application/json' })
  })
})

describe('metadata that has the form of no key or payment', () => {
  it.each([
    [{ 'farebox/idempotency-key': 17 }, 'invalid_idempotency_key'],
    [{ 'farebox/idempotency-key': null }, 'invalid_idempotency_key'],
    [{ 'x402/payment': 'eyJ4IjoxfQ==' }, 'invalid_payment_header'],
    [{ 'x402/payment': [payment] }, 'invalid_payment_header'],
    [{ 'x402/payment': null }, 'invalid_payment_header'],
    [{ 'x402/payment': { note: 'x'.repeat(20_000) } }, 'invalid_payment_header'],
  ])('is refused: %j', (meta, code) => {
    expect(() => requireUsable(meta, {})).toThrow(expect.objectContaining({ code }))
  })

  it('is not a payment and a key as they should be', () => {
    requireUsable({ 'x402/payment': payment, 'farebox/idempotency-key': 'k' }, { accept: '*/*' })
  })

  it('is not a key that is a hash, as at the endpoint', () => {
    requireUsable({ 'farebox/idempotency-key': 'ab'.repeat(32) }, {})
    requireUsable({ 'farebox/idempotency-key': `0x${'ab'.repeat(32)}` }, {})
  })
})

it('texts of the endpoints name the parts of a tool call', () => {
  expect(inTermsOfTools('The header x-idempotency-key is missing.')).toBe(
    '_meta["farebox/idempotency-key"] is missing.',
  )
  expect(inTermsOfTools('Sign the challenge in PAYMENT-REQUIRED and retry.')).toBe(
    'Sign the challenge in structuredContent and retry.',
  )
  expect(inTermsOfTools('PAYMENT-SIGNATURE is wrong.')).toBe('_meta["x402/payment"] is wrong.')
})
