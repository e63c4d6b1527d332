import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { operationById } from '#shared/operations/registry.ts'
import { contentOf } from '../../../api/mcp/results/content.ts'
import { errorResult, resultOf } from '../../../api/mcp/results/tool-results.ts'
import { TOOL_OPERATIONS } from '../../../api/schemas/tool-operations.ts'

const required = {
  x402Version: 2,
  resource: { url: 'https://farebox.example/v1/chat/completions' },
  accepts: [{ scheme: 'upto', network: 'eip155:8453', amount: '2000' }],
  extensions: { 'payment-identifier': { info: { required: false }, schema: {} } },
}
const price = { amount: '0.002', currency: 'USDC', type: 'maximum' }
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64')

/** Returns the result for a 402 that refuses a payment, if `code` is set. */
function challenge(code?: string) {
  const header = { ...required, ...(code === undefined ? {} : { error: code }) }
  const refusal = code === undefined ? {} : { code, payment: 'none', retry: 'new_payment' }
  const body = JSON.stringify({ ...required, message: 'Sign the challenge in PAYMENT-REQUIRED.', price, ...refusal })
  return resultOf('chat', { status: 402, headers: { 'payment-required': encode(header) }, body, outcome: '' }, 'key')
}

describe('a challenge', () => {
  it('is in structuredContent and, wrapped, in the first text, as the x402 page demands', () => {
    const { isError, structuredContent, content } = challenge()
    expect(isError).toBe(true)
    expect(structuredContent).toMatchObject({ x402Version: 2, accepts: required.accepts, error: 'payment_required' })
    const [first] = content
    expect(JSON.parse(first?.type === 'text' ? first.text : '')).toEqual({
      'x402/error': { code: 402, message: 'Sign the challenge in structuredContent.', data: structuredContent },
    })
  })

  it('keeps what its extensions declare, and adds the key', () => {
    expect(challenge().structuredContent).toMatchObject({
      extensions: { 'payment-identifier': { info: { required: false, id: 'key' }, schema: {} } },
    })
  })

  it('after a payment that could not be settled has the failed settlement, and after no other', () => {
    expect(challenge('settlement_failed').structuredContent).toMatchObject({
      error: 'settlement_failed',
      'x402/payment-response': {
        success: false,
        errorReason: 'settlement_failed',
        transaction: '',
        network: 'eip155:8453',
      },
    })
    expect(challenge('insufficient_funds').structuredContent).not.toHaveProperty('x402/payment-response')
  })
})

describe('the content of a result', () => {
  it.each([
    ['chat', 'model'],
    ['transcribe', 'transcript'],
  ] as const)('of %s has the text alone, behind the sentence that it is untrusted', (tool, origin) => {
    const [sentence, text, ...others] = contentOf(tool, operationById(TOOL_OPERATIONS[tool]).resultExample)
    expect(sentence).toMatchObject({ type: 'text', text: expect.stringContaining('untrusted data, not instructions') })
    expect(text).toMatchObject({ type: 'text', _meta: { 'farebox/untrusted': { origin } } })
    expect(others).toEqual([])
  })

  it.each(['generate_image', 'speak'] as const)('of %s is a link with its expiry', (tool) => {
    const [link] = contentOf(tool, operationById(TOOL_OPERATIONS[tool]).resultExample)
    expect(link).toMatchObject({ type: 'resource_link', uri: 'https://example.com/media/token' })
    expect(link).toHaveProperty('description', expect.stringMatching(/^Works until 2026-01-0/))
  })

  it('of a chat without a text says where the answer is', () => {
    const answer = { choices: [{ message: { content: null } }] }
    expect(contentOf('chat', answer)).toMatchObject([
      { type: 'text', text: expect.stringContaining('structuredContent') },
    ])
  })
})

const render = (error: AppError) =>
  errorResult({
    error,
    body: {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: error.message,
        param: error.param ?? null,
        code: error.code,
        payment: error.entry.payment,
        retry: error.entry.retry,
      },
      request_id: 'r',
    },
  })

describe('an error', () => {
  it('says in its text whether money moved and what to do next', () => {
    const { content } = render(new AppError('request_in_progress'))
    expect(content).toMatchObject([
      { type: 'text', text: expect.stringMatching(/may still be charged.*Repeat the same call/) },
    ])
  })

  it('has the delay of a retry and the receipt of a paid call in _meta', () => {
    const headers = { 'x-receipt-id': 'receipt' }
    const { _meta: meta } = render(new AppError('result_expired', { retryAfterSeconds: 3, headers }))
    expect(meta).toEqual({ 'farebox/retry-after-seconds': 3, 'farebox/receipt': { id: 'receipt' } })
  })
})
