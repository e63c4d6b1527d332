import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { AppError } from '#shared/errors/app-error.ts'

/** Visible ASCII: the key goes into logs of callers and proxies, so nothing invisible may hide in it. */
const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

/** Headers whose repetition would leave open which one counts; Node joins or drops repeated values silently. */
const SINGLE_HEADERS = ['x-idempotency-key', 'payment-signature', 'content-type']

/** Throws `duplicate_header`. Reads the raw headers, since the parsed ones hide a repetition. */
export function refuseDuplicateHeaders(request: IncomingMessage): void {
  const names = request.rawHeaders.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase())
  for (const header of SINGLE_HEADERS) {
    if (names.filter((name) => name === header).length > 1)
      throw new AppError('duplicate_header', {
        message: `The header ${header} was sent more than once.`,
        param: header,
      })
  }
}

/** The caller's key. Throws `missing_idempotency_key` or `invalid_idempotency_key`. */
export function readIdempotencyKey(headers: IncomingHttpHeaders): string {
  const key = headers['x-idempotency-key']
  if (key === undefined) throw new AppError('missing_idempotency_key', { param: 'x-idempotency-key' })
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key))
    throw new AppError('invalid_idempotency_key', { param: 'x-idempotency-key' })
  return key
}

/** The signed payment as sent, or `null` on an unpaid request. */
export function readPaymentHeader(headers: IncomingHttpHeaders): string | null {
  const value = headers['payment-signature']
  return typeof value === 'string' ? value : null
}
