import { AppError } from '#shared/errors/app-error.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import type { PaymentHeader } from '#shared/payment/x402-wire.ts'
import { invalidPayment } from '../paid-request/pay/read-authorization.ts'
import type { ReadCall } from '../request/call.ts'
import { isIdempotencyKey, readPaymentHeader } from '../request/headers.ts'
import { isKeyName, keyRefused, refuseKeys } from '../request/private-keys.ts'

/** The names of `_meta` that this server reads and writes. Source of the first two: x402 specification, transport MCP. */
export const META = {
  payment: 'x402/payment',
  paymentResponse: 'x402/payment-response',
  key: 'farebox/idempotency-key',
  receipt: 'farebox/receipt',
  price: 'farebox/price',
  refusal: 'farebox/refusal',
  retryAfter: 'farebox/retry-after-seconds',
  untrusted: 'farebox/untrusted',
} as const

/** Several times what an official client sends, and as much as the headers of a request to an endpoint may have. */
const MAXIMUM_PAYMENT_LENGTH = 16 * 1024

/**
 * The member of a challenge's `accepts[].extra` with the key of its call. Every payment repeats `accepts[]`, while the
 * extensions of a payment, `payment-identifier` among them, are optional. The challenge's token proves the key.
 */
export const KEY_OF_TERMS = 'idempotencyKey'

/** The headers of a tool call, as its endpoint would have received them. */
interface CallHeaders {
  readonly headers: ReadCall['headers']
  /** Why its payment is no payment, if it has one that is not; the headers are then those of an unpaid call. */
  readonly paymentProblem: AppError | null
}

/**
 * Translates the `_meta` of a tool call into the headers that its endpoint would have received. The key is that of
 * `_meta`, or else the one that the payment repeats from its challenge, so that the same payment is always for the same
 * call. Any other call gets a new key, which its challenge names; a payment under a new key is refused, since its
 * challenge is for another one. `requireUsable` judges the rest.
 */
export function readCallHeaders(
  { [META.payment]: payment, [META.key]: given }: Readonly<Record<string, unknown>>,
  newKey: () => string,
): CallHeaders {
  // Speech would otherwise be answered with an MP3 to clients that prefer one.
  const headers: ReadCall['headers'] = { accept: 'application/json' }
  const problem = payment === undefined ? null : formProblem(payment)
  if (payment !== undefined && problem === null)
    headers['payment-signature'] = Buffer.from(JSON.stringify(payment)).toString('base64')
  const header = readPaymentHeader(headers)
  const key = given ?? (header && keyOfPayment(header)) ?? newKey()
  if (typeof key === 'string') headers['x-idempotency-key'] = key
  const reason = header?.decoded.outcome === 'malformed' ? header.decoded.reason : problem
  if (reason === null) return { headers, paymentProblem: null }
  delete headers['payment-signature']
  return { headers, paymentProblem: invalidPayment(reason) }
}

/** Returns why a value of `_meta` cannot be a payment, or `null`. */
function formProblem(payment: unknown): string | null {
  if (!isObject(payment)) return 'it must be a PaymentPayload object'
  const isLong = JSON.stringify(payment).length > MAXIMUM_PAYMENT_LENGTH
  return isLong ? `it has more than ${MAXIMUM_PAYMENT_LENGTH.toLocaleString('en')} characters` : null
}

/** Returns the key that a payment repeats from its challenge, if any. */
function keyOfPayment({ identifier, decoded }: PaymentHeader): string | null {
  if (identifier !== null || decoded.outcome !== 'decoded') return identifier
  const key = decoded.payment.accepted.extra?.[KEY_OF_TERMS]
  return isIdempotencyKey(key) ? key : null
}

/** Throws `invalid_idempotency_key` for what has no form of a key, and refuses what looks like a wallet's private key. */
export function requireUsable(meta: Readonly<Record<string, unknown>>, outer: ReadCall['headers']): void {
  if (Object.keys(outer).some(isKeyName)) throw keyRefused('the request’s headers')
  refuseKeys(meta, '_meta', [META.payment, META.key])
  const { [META.key]: key } = meta
  if (key !== undefined && typeof key !== 'string') throw new AppError('invalid_idempotency_key')
}

/** What the texts of the endpoints call the parts of a request, and what they are called in a tool call. */
const TERMS: readonly (readonly [RegExp, string])[] = [
  [/(the )?header x-idempotency-key/gi, `_meta["${META.key}"]`],
  [/x-idempotency-key/gi, `_meta["${META.key}"]`],
  [/PAYMENT-SIGNATURE/g, `_meta["${META.payment}"]`],
  [/the challenge in PAYMENT-REQUIRED/g, 'the challenge in structuredContent'],
  [/PAYMENT-REQUIRED/g, 'structuredContent'],
  [/request body/g, 'arguments'],
  [/this endpoint/g, 'this tool'],
]

/** Returns a text of an endpoint in the terms of a tool call. */
export function inTermsOfTools(text: string): string {
  return TERMS.reduce((changed, [term, replacement]) => changed.replace(term, replacement), text)
}
