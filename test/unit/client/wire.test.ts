import { describe, expect, it } from 'vitest'
import { readRetryAfter, readServiceError } from '../../../client/wire/service-error.ts'

const answerOf = (status: number, body: unknown, headers: Record<string, string> = {}) => ({
  status,
  headers: new Headers(headers),
  body: new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body)),
})
const reported = (changes: Record<string, unknown>) => ({
  type: 'error',
  error: {
    type: 'x',
    message: 'Busy.',
    param: null,
    code: 'overloaded',
    payment: 'none',
    retry: 'same_request',
    ...changes,
  },
  request_id: 'r-1',
})

describe('errors of the service', () => {
  it('an error keeps the service’s code, money state and retry advice', () => {
    const error = readServiceError(answerOf(503, reported({ payment: 'authorized' })), true)
    expect(error).toMatchObject({ code: 'overloaded', money: 'authorized', retry: 'same_request', requestId: 'r-1' })
  })

  it('an error’s message ends with what happened to the money and what to do', () => {
    const { message } = readServiceError(
      answerOf(402, {
        error: 'Payment Required',
        message: 'Too little.',
        code: 'insufficient_funds',
        payment: 'none',
        retry: 'new_payment',
      }),
      true,
    )
    expect(message).toBe('Too little. Nothing was charged. Add USDC to the wallet and repeat the call.')
  })

  it('the service’s own sentence about the money is not repeated', () => {
    const { message } = readServiceError(answerOf(503, reported({ message: 'Busy. Nothing was charged.' })), true)
    expect(message.match(/Nothing was charged/g)).toHaveLength(1)
  })

  it.each([
    ['after a payment the money is unknown', 502, true, 'unknown', 'same_request'],
    ['before a payment nothing was charged', 502, false, 'none', 'same_request'],
    ['a foreign 404 is not repeated', 404, true, 'unknown', 'never'],
  ])('an answer of something between: %s', (_, status, hasPaid, money, retry) => {
    expect(readServiceError(answerOf(status, '<html>Bad gateway</html>'), hasPaid)).toMatchObject({ money, retry })
  })

  it('a wait is read from milliseconds, seconds and dates', () => {
    const now = Date.parse('2026-01-01T00:00:00Z')
    expect(readRetryAfter(new Headers({ 'retry-after-ms': '1500', 'retry-after': '9' }), now)).toBe(1500)
    expect(readRetryAfter(new Headers({ 'retry-after': '2' }), now)).toBe(2000)
    expect(readRetryAfter(new Headers({ 'retry-after': 'Thu, 01 Jan 2026 00:00:03 GMT' }), now)).toBe(3000)
    expect(readRetryAfter(new Headers({ 'retry-after': 'soon' }), now)).toBeUndefined()
    expect(readRetryAfter(new Headers(), now)).toBeUndefined()
  })
})
