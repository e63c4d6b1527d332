import {
  declareEip2612GasSponsoringExtension,
  declarePaymentIdentifierExtension,
  PAYMENT_IDENTIFIER,
} from '@x402/extensions'
import type { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { offerExtension } from '#shared/payment/offer-receipt.ts'
import { type PaymentTerms, SIGNING_TERMS } from '#shared/payment/payment-terms.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'

/** What a 402 says: of a request that was priced, or of a route in general. */
export interface PaymentRequiredContent {
  readonly terms: PaymentTerms
  readonly publicBaseUrl: string
  /** Signs the offer, so that the payer can show what was asked for. */
  readonly signer: StatementSigner
  readonly operation: AnyOperation
  readonly maximum: AtomicAmount
  /** Until when the offer stands. */
  readonly validUntil: Date
  readonly message: string
  /** Of `accepts[0].extra`, beside what the scheme needs. */
  readonly extra: { readonly facilitatorAddress: string | undefined } & Record<string, unknown>
  /** Beside the extensions that every challenge offers. */
  readonly extensions?: Record<string, unknown>
  /** Why a given payment was not taken. */
  readonly refusal?: AppError | undefined
  readonly requestId: string
}

/** Status, headers and JSON body of a 402, or of the 412 for a missing allowance (specification, Errors; payments page, Wire). */
export function renderPaymentRequired(content: PaymentRequiredContent) {
  const { terms, operation, maximum, refusal } = content
  const amount = dollarsFromAtomic(maximum)
  const url = resourceUrl(operation, content.publicBaseUrl)
  const accepted = {
    scheme: 'upto',
    network: terms.network as `${string}:${string}`,
    amount: maximum.toString(),
    asset: terms.asset,
    payTo: terms.payTo,
    maxTimeoutSeconds: terms.maxTimeoutSeconds,
    extra: { ...SIGNING_TERMS, ...content.extra },
  }
  // In header and body alike, and long: written once.
  const required = JSON.stringify({
    x402Version: 2,
    resource: { url, description: operation.summary, mimeType: 'application/json' },
    accepts: [accepted],
    extensions: {
      ...declareEip2612GasSponsoringExtension(),
      [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(false),
      ...offerExtension(content.signer, url, accepted, content.validUntil),
      ...content.extensions,
    },
  })
  const header = refusal ? joined(JSON.stringify({ error: refusal.code }), required) : required
  return {
    status: refusal?.entry.status === 412 ? 412 : 402,
    outcome: refusal?.code ?? 'challenged',
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'payment-required': asHeader(header),
      'cache-control': 'no-store',
    },
    // The protocol's own fields beside the specified ones; `error` is the specification's.
    body: joined(
      required,
      JSON.stringify({
        error: 'Payment Required',
        message: refusal?.message ?? content.message,
        price: { amount, currency: 'USDC', type: 'maximum' },
        paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
        ...(refusal ? { code: refusal.code, payment: refusal.entry.payment, retry: refusal.entry.retry } : {}),
        request_id: content.requestId,
      }),
    ),
  }
}

/** One JSON object with the members of two that have none in common, each as JSON. */
function joined(first: string, second: string): string {
  return `${first.slice(0, -1)},${second.slice(1)}`
}

/** As the protocol package encodes it, at a tenth of the price. */
function asHeader(json: string): string {
  return Buffer.from(json).toString('base64')
}

/** What a challenge names as the thing to be paid for. */
export function resourceUrl({ path }: AnyOperation, publicBaseUrl: string): string {
  return new URL(path, publicBaseUrl).href
}
