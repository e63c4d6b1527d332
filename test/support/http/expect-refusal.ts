import { expect } from 'vitest'

/** A failure in the common error body. */
export interface ExpectedRefusal {
  readonly status: number
  readonly code: string
  readonly param: string | null
  /** Default: `none`. */
  readonly payment?: string
  /** Each must occur in the message. */
  readonly says?: readonly string[]
}

export interface ErrorBody {
  type: string
  error: { type: string; message: string; param: string | null; code: string; payment: string; retry: string }
  request_id: string
}

/** Asserts a permanent refusal: body, request id in both headers, and the header that stops SDKs from retrying. */
export async function expectNeverRetry(answer: Response, expected: ExpectedRefusal): Promise<void> {
  const body = await expectErrorBody(answer, expected)
  expect(body.error).toMatchObject({
    type: 'invalid_request_error',
    payment: expected.payment ?? 'none',
    retry: 'never',
  })
  expect(answer.headers.get('x-should-retry')).toBe('false')
  expect(answer.headers.get('retry-after')).toBeNull()
  expect(answer.headers.get('payment-required')).toBeNull()
}

/** Asserts the common error body with this status, code, parameter and message. */
export async function expectErrorBody(
  answer: Response,
  { status, code, param, says = [] }: ExpectedRefusal,
): Promise<ErrorBody> {
  const text = await answer.text()
  expect({ status: answer.status, text }).toMatchObject({ status })
  const body = JSON.parse(text) as ErrorBody
  expect(body).toEqual({
    type: 'error',
    error: {
      type: expect.any(String),
      message: expect.any(String),
      param,
      code,
      payment: expect.any(String),
      retry: expect.any(String),
    },
    request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
  })
  for (const words of says) expect(body.error.message).toContain(words)
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
  expect(answer.headers.get('x-request-id')).toBe(body.request_id)
  expect(answer.headers.get('request-id')).toBe(body.request_id)
  return body
}
