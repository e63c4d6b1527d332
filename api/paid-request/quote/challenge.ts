import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { CHALLENGE_RANDOM_BYTES, sealChallengeToken } from '#shared/payment/challenge-token.ts'
import { HOW_TO_PAY } from '#shared/payment/how-to-pay.ts'
import type { OfferWriter } from '#shared/payment/offer-receipt.ts'
import { type PaymentTerms, SIGNING_TERMS } from '#shared/payment/payment-terms.ts'
import { gasMinimumOf } from '#shared/pricing/bounded-charge.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { takeRandomBytes } from '#shared/runtime/random-bytes.ts'
import type { Listing, Listings } from './listing.ts'

/** The request that a challenge or a payment is for. */
export interface ChallengeSubject {
  readonly operation: AnyOperation
  readonly idempotencyKey: string
  readonly requestDigest: string
}

/** A quote bound to one key and request: offered by a 402, and checked against the signed retry. */
export interface Challenge extends ChallengeSubject {
  readonly quote: Quote<JsonValue>
  readonly expiresAt: Date
}

/** What challenges are rendered with. */
export interface ChallengeContext {
  readonly terms: PaymentTerms
  readonly challengeSecrets: ChallengeSecrets
  readonly listings: Listings
  readonly writeOffer: OfferWriter
}

/** Renders the 402 (or 412) that offers `challenge`. `refusal` is the reason why a presented payment was refused. */
export function renderChallenge(
  { terms, challengeSecrets, listings, writeOffer }: ChallengeContext,
  challenge: Challenge,
  requestId: string,
  refusal?: AppError,
) {
  const { operation, requestDigest, quote, expiresAt } = challenge
  const { quotedMaximum } = quote
  const gasMinimum = gasMinimumOf(quote.terms)
  const atLeast = gasMinimum === undefined ? '' : `, and at least ${gasMinimum} USDC, the expected cost of settling it`
  const listing = listings[operation.id]
  return renderPaymentRequired({
    terms,
    listing,
    extensions: listing.pricedExtensions,
    offer: { writeOffer, validUntil: expiresAt },
    maximum: quotedMaximum,
    message: `This request costs at most ${dollarsFromAtomic(quotedMaximum)} USDC${atLeast}. Sign the challenge in PAYMENT-REQUIRED and retry. Clients that have only the scheme "exact", or send X-PAYMENT (x402 v1, never read here), cannot. ${HOW_TO_PAY}.`,
    extra: {
      facilitatorAddress: facilitatorFor(terms, requestDigest),
      challenge: sealChallengeToken(
        { ...challenge, quotedMaximum },
        challengeSecrets,
        takeRandomBytes(CHALLENGE_RANDOM_BYTES),
      ),
      expiresAt: expiresAt.toISOString(),
      // In the header as well: the payer holds the receipt against it.
      ...(gasMinimum !== undefined && { gasMinimumCharge: gasMinimum }),
    },
    refusal,
    requestId,
  })
}

/**
 * Returns the settlement contract, or picks a settlement key by the request's digest, so that every API process names the
 * same one for the same request.
 */
function facilitatorFor({ facilitators }: PaymentTerms, requestDigest: string): `0x${string}` {
  const index = Number.parseInt(requestDigest.slice(0, 8), 16) % facilitators.length
  const [first] = facilitators
  const chosen = facilitators[index] ?? first
  if (!chosen) throw new Error('no facilitator address is configured')
  return chosen
}

/** Content of a 402, either for a priced request or for a route in general. */
interface PaymentRequiredContent {
  readonly terms: PaymentTerms
  /** The part that is the same for every request of the operation. */
  readonly listing: Listing
  /** The extensions other than the offer, as JSON. */
  readonly extensions: string
  /**
   * Writes the signed offer, which expires at `validUntil`, so that the payer can prove what was requested. `null` where
   * nothing can be paid.
   */
  readonly offer: { readonly writeOffer: OfferWriter; readonly validUntil: Date } | null
  readonly maximum: AtomicAmount
  readonly message: string
  /** Members of `accepts[0].extra` in addition to those of the scheme. */
  readonly extra: { readonly facilitatorAddress: string | undefined } & Record<string, unknown>
  /** Why a presented payment was refused. */
  readonly refusal?: AppError | undefined
  readonly requestId: string
}

/**
 * Renders status, headers and JSON body of a 402, or of the 412 for a missing allowance
 * (test/contract/specification.ts, L3 and L4).
 */
export function renderPaymentRequired(content: PaymentRequiredContent) {
  const { terms, listing, offer, maximum, refusal } = content
  const amount = dollarsFromAtomic(maximum)
  const accepted = {
    scheme: 'upto',
    network: terms.network as `${string}:${string}`,
    amount: maximum.toString(),
    asset: terms.asset,
    payTo: terms.payTo,
    maxTimeoutSeconds: terms.maxTimeoutSeconds,
    extra: { ...SIGNING_TERMS, ...content.extra },
  }
  const extensions = offer
    ? mergeJson(content.extensions, offer.writeOffer(listing.url, accepted, offer.validUntil))
    : content.extensions
  // Part of both header and body, and long, so it is serialized once.
  const members = `"x402Version":2,"resource":${listing.resource},"accepts":[${JSON.stringify(accepted)}],"extensions":${extensions}`
  const header = refusal ? `{"error":"${refusal.code}",${members}}` : `{${members}}`
  return {
    status: refusal?.entry.status === 412 ? 412 : 402,
    outcome: refusal?.code ?? 'challenged',
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'payment-required': encodeHeader(header),
      'cache-control': 'no-store',
      ...(refusal?.retryAfterSeconds === undefined ? {} : { 'retry-after': refusal.retryAfterSeconds.toString() }),
    },
    // The body of statement L3 (test/contract/specification.ts), with the protocol's own fields next to it. Where both
    // define `error`, L3 applies.
    body: `{${members},${JSON.stringify({
      error: 'Payment Required',
      message: refusal?.message ?? content.message,
      price: { amount, currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
      ...(refusal
        ? { code: refusal.code, payment: refusal.entry.payment, retry: refusal.entry.retry, ...refusal.members }
        : {}),
      request_id: content.requestId,
    }).slice(1)}`,
  }
}

/** Merges two JSON texts of objects that have no member in common. */
function mergeJson(first: string, second: string): string {
  return `${first.slice(0, -1)},${second.slice(1)}`
}

/** Encodes the JSON of a payment header in Base64, as the protocol package does in ten times the time. */
export function encodeHeader(json: string): string {
  return Buffer.from(json).toString('base64')
}
