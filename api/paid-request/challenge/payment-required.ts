import type { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { offerExtension } from '#shared/payment/offer-receipt.ts'
import { type PaymentTerms, SIGNING_TERMS } from '#shared/payment/payment-terms.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import { encodeHeader } from '../encode-header.ts'
import type { Listing } from './listing.ts'

/** Content of a 402, either for a priced request or for a route in general. */
export interface PaymentRequiredContent {
  readonly terms: PaymentTerms
  /** The part that is the same for every request of the operation. */
  readonly listing: Listing
  /** Its extensions, as JSON. */
  readonly extensions: string
  /** Signs the offer, so that the payer can prove what was requested. */
  readonly signer: StatementSigner
  readonly maximum: AtomicAmount
  /** When the offer expires. */
  readonly validUntil: Date
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
  const { terms, listing, maximum, refusal } = content
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
  const offer = JSON.stringify(offerExtension(content.signer, listing.url, accepted, content.validUntil))
  // Part of both header and body, and long, so it is serialized once.
  const required = `{"x402Version":2,"resource":${listing.resource},"accepts":[${JSON.stringify(accepted)}],"extensions":${mergeJson(content.extensions, offer)}}`
  const header = refusal ? mergeJson(JSON.stringify({ error: refusal.code }), required) : required
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
    body: mergeJson(
      required,
      JSON.stringify({
        error: 'Payment Required',
        message: refusal?.message ?? content.message,
        price: { amount, currency: 'USDC', type: 'maximum' },
        paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
        ...(refusal
          ? { code: refusal.code, payment: refusal.entry.payment, retry: refusal.entry.retry, ...refusal.members }
          : {}),
        request_id: content.requestId,
      }),
    ),
  }
}

/** Merges two JSON texts of objects that have no member in common. */
function mergeJson(first: string, second: string): string {
  return `${first.slice(0, -1)},${second.slice(1)}`
}
