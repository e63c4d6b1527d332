import { AppError } from '#shared/errors/app-error.ts'
import type { ReadCall } from '../request/call.ts'
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
 * Translates the `_meta` of a tool call into the headers that its endpoint would have received. A call that brings neither
 * a key nor a payment gets a new key, which its challenge names. `requireUsable` judges what is missing here.
 */
export function readCallHeaders(
  { [META.payment]: payment, [META.key]: given }: Readonly<Record<string, unknown>>,
  newKey: () => string,
): ReadCall['headers'] {
  const key = given ?? (payment === undefined ? newKey() : undefined)
  return {
    // Speech would otherwise be answered with an MP3 to clients that prefer one.
    accept: 'application/json',
    ...(typeof key === 'string' ? { 'x-idempotency-key': key } : {}),
    ...(isObject(payment) ? { 'payment-signature': Buffer.from(JSON.stringify(payment)).toString('base64') } : {}),
  }
}

/**
 * Throws `invalid_payment_header` and `invalid_idempotency_key` for what has no form of a payment or a key, and refuses
 * what looks like the private key of a wallet.
 */
export function requireUsable(meta: Readonly<Record<string, unknown>>, outer: ReadCall['headers']): void {
  if (Object.keys(outer).some(isKeyName)) throw keyRefused('the request’s headers')
  refuseKeys(meta, '_meta', [META.payment, META.key])
  const { [META.payment]: payment, [META.key]: key } = meta
  if (key !== undefined && typeof key !== 'string') throw new AppError('invalid_idempotency_key')
  if (payment === undefined) return
  const problem = isObject(payment)
    ? JSON.stringify(payment).length > MAXIMUM_PAYMENT_LENGTH &&
      `has more than ${MAXIMUM_PAYMENT_LENGTH.toLocaleString('en')} characters`
    : 'must be a PaymentPayload object'
  if (problem !== false)
    throw new AppError('invalid_payment_header', {
      param: 'PAYMENT-SIGNATURE',
      message: `PAYMENT-SIGNATURE ${problem}.`,
    })
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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
