import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { AppError } from '#shared/errors/app-error.ts'
import { openPaymentHeader, type PaymentHeader } from '#shared/payment/x402-wire.ts'

/** Visible ASCII only: the key appears in logs of callers and proxies, where invisible characters would be lost. */
const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/

export function isIdempotencyKey(value: unknown): value is string {
  return typeof value === 'string' && IDEMPOTENCY_KEY.test(value)
}

/** Headers that must not be repeated: Node silently joins or drops repeated values. */
const SINGLE_HEADERS: ReadonlySet<string> = new Set(['x-idempotency-key', 'payment-signature', 'content-type'])

/** Throws `duplicate_header`. Reads the raw headers, since the parsed ones hide a repetition. */
export function refuseDuplicateHeaders({ rawHeaders }: IncomingMessage): void {
  const seen = new Set<string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const header = rawHeaders[index]?.toLowerCase() ?? ''
    if (!SINGLE_HEADERS.has(header)) continue
    if (seen.has(header))
      throw new AppError('duplicate_header', {
        message: `The header ${header} was sent more than once.`,
        param: header,
      })
    seen.add(header)
  }
}

/**
 * Reads the payment of a request, `null` for an unpaid one, and its idempotency key. Throws as `readIdempotencyKey`.
 */
export function readPaidHeaders(headers: IncomingHttpHeaders) {
  const paymentHeader = readPaymentHeader(headers)
  return { paymentHeader, idempotencyKey: keyOf(headers, paymentHeader?.identifier ?? null) }
}

/**
 * Reads the idempotency key from its header or from the payment's `payment-identifier` extension, which is equivalent.
 * Throws `missing_idempotency_key`, `invalid_idempotency_key`, and `idempotency_key_conflict` when the two differ.
 */
export function readIdempotencyKey(headers: IncomingHttpHeaders): string {
  return readPaidHeaders(headers).idempotencyKey
}

function keyOf(headers: IncomingHttpHeaders, identifier: string | null): string {
  const key = headers['x-idempotency-key'] ?? identifier
  if (key === null) throw new AppError('missing_idempotency_key', { param: 'x-idempotency-key' })
  if (!isIdempotencyKey(key)) throw new AppError('invalid_idempotency_key', { param: 'x-idempotency-key' })
  if (identifier !== null && identifier !== key)
    throw new AppError('idempotency_key_conflict', { param: 'x-idempotency-key' })
  return key
}

/**
 * Throws `unsupported_content_type` unless the body is JSON: Fastify would accept, or suggest, a form that the
 * operation does not take.
 */
export function requireJson(headers: IncomingHttpHeaders): void {
  const mediaType = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (mediaType !== 'application/json')
    throw new AppError('unsupported_content_type', { message: 'Send application/json.' })
}

/** Several checks of one request need its payment, which takes a tenth of a millisecond to decode. */
const decodedHeaders = new WeakMap<IncomingHttpHeaders, PaymentHeader>()

/** Returns the signed payment of a request, or `null` for an unpaid one. Decoded once per request. */
export function readPaymentHeader(headers: IncomingHttpHeaders): PaymentHeader | null {
  const value = headers['payment-signature']
  if (typeof value !== 'string') return null
  const header = decodedHeaders.get(headers) ?? openPaymentHeader(value)
  decodedHeaders.set(headers, header)
  return header
}

/** Matches a quality value of RFC 9110, section 12.4.2. */
const QUALITY = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

/**
 * Returns the quality value, from 0 to 1, that an `Accept` header assigns to a media type: that of the most specific
 * range that covers it, and 0 if none does (RFC 9110, section 12.5.1). Without the header every type has 1.
 */
export function acceptQuality(accept: string | undefined, mediaType: string): number {
  if (accept === undefined || accept.trim() === '') return 1
  const [type = ''] = mediaType.split('/', 1)
  // The most specific range first.
  const covering = [mediaType, `${type}/*`, '*/*']
  const ranges = new Map(accept.split(',').map(readRange))
  return covering.map((range) => ranges.get(range)).find((quality) => quality !== undefined) ?? 0
}

/** Reads one range and its quality value; other parameters do not distinguish the offered types. */
function readRange(entry: string): readonly [range: string, quality: number] {
  const [range = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
  const [, quality = '1'] = parameters.map((parameter) => QUALITY.exec(parameter)).find((match) => match) ?? []
  return [range, Number(quality)]
}
