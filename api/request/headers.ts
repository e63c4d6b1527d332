import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { AppError } from '#shared/errors/app-error.ts'
import { openPaymentHeader, type PaymentHeader } from '#shared/payment/x402-wire.ts'

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

/**
 * The caller's key: the header, or x402's `payment-identifier` inside the payment, which means the same. Throws
 * `missing_idempotency_key`, `invalid_idempotency_key`, and `idempotency_key_conflict` when the two differ.
 */
export function readIdempotencyKey(headers: IncomingHttpHeaders): string {
  const identifier = readPaymentHeader(headers)?.identifier ?? null
  const key = headers['x-idempotency-key'] ?? identifier
  if (key === null) throw new AppError('missing_idempotency_key', { param: 'x-idempotency-key' })
  if (typeof key !== 'string' || !IDEMPOTENCY_KEY.test(key))
    throw new AppError('invalid_idempotency_key', { param: 'x-idempotency-key' })
  if (identifier !== null && identifier !== key)
    throw new AppError('idempotency_key_conflict', { param: 'x-idempotency-key' })
  return key
}

/** Throws `unsupported_content_type` where Fastify would take a form, or would recommend one, that the operation does not. */
export function refuseOtherThanJson(headers: IncomingHttpHeaders): void {
  const mediaType = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType !== 'application/json')
    throw new AppError('unsupported_content_type', { message: 'Send application/json.' })
}

/** Four checks of one request look at its payment, which is a tenth of a millisecond's work to read. */
const opened = new WeakMap<IncomingHttpHeaders, PaymentHeader>()

/** The signed payment that a request brings, or `null` on an unpaid request. Read once for the same headers. */
export function readPaymentHeader(headers: IncomingHttpHeaders): PaymentHeader | null {
  const value = headers['payment-signature']
  if (typeof value !== 'string') return null
  const header = opened.get(headers) ?? openPaymentHeader(value)
  opened.set(headers, header)
  return header
}
