import { encodePaymentRequiredHeader } from '@x402/core/http'
import {
  declareEip2612GasSponsoringExtension,
  declarePaymentIdentifierExtension,
  PAYMENT_IDENTIFIER,
} from '@x402/extensions'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { Quote } from '#shared/pricing/quote.ts'

/** Which request a challenge or a payment is about. */
export interface ChallengeSubject {
  readonly operation: AnyOperation
  readonly idempotencyKey: string
  readonly requestDigest: string
}

/** A quote as it stands for one key and request: what a 402 offers and what a signed retry is held against. */
export interface Challenge extends ChallengeSubject {
  readonly quote: Quote<JsonValue>
  readonly expiresAt: Date
}

interface ChallengeDependencies {
  readonly terms: PaymentTerms
  readonly challengeSecret: string
  readonly publicBaseUrl: string
}

/** Status, headers and body of the 402 (or 412) that offers `challenge`. `refusal` tells why a given payment was not taken. */
export function renderChallenge(
  { terms, challengeSecret, publicBaseUrl }: ChallengeDependencies,
  challenge: Challenge,
  requestId: string,
  refusal?: AppError,
) {
  const { operation, quote, expiresAt } = challenge
  const amount = dollarsFromAtomic(quote.quotedMaximum)
  const accepted = {
    scheme: 'upto',
    network: terms.network as `${string}:${string}`,
    amount: quote.quotedMaximum.toString(),
    asset: terms.asset,
    payTo: terms.payTo,
    maxTimeoutSeconds: terms.maxTimeoutSeconds,
    extra: {
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: facilitatorFor(terms, challenge.requestDigest),
      challenge: sealChallengeToken({ ...challenge, quotedMaximum: quote.quotedMaximum }, challengeSecret),
      expiresAt: expiresAt.toISOString(),
    },
  }
  const required = {
    x402Version: 2,
    ...(refusal ? { error: refusal.code } : {}),
    resource: {
      url: new URL(operation.path, publicBaseUrl).href,
      description: operation.summary,
      mimeType: 'application/json',
    },
    accepts: [accepted],
    extensions: {
      ...declareEip2612GasSponsoringExtension(),
      [PAYMENT_IDENTIFIER]: declarePaymentIdentifierExtension(false),
    },
  }
  return {
    status: refusal?.entry.status === 412 ? 412 : 402,
    headers: { 'payment-required': encodePaymentRequiredHeader(required), 'cache-control': 'no-store' },
    body: {
      error: 'Payment Required',
      message:
        refusal?.message ??
        `This request costs at most ${amount} USDC. Sign the challenge in PAYMENT-REQUIRED and retry.`,
      price: { amount, currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: terms.network, asset: terms.asset },
      ...(refusal ? { code: refusal.code, payment: refusal.entry.payment, retry: refusal.entry.retry } : {}),
      // The protocol's own fields beside the specified ones; `error` stays the specification's.
      x402Version: required.x402Version,
      resource: required.resource,
      accepts: required.accepts,
      extensions: required.extensions,
      request_id: requestId,
    },
  }
}

/** Deterministic over the request, so that the same challenge names the same settling key on every API process. */
function facilitatorFor({ facilitators }: PaymentTerms, requestDigest: string): `0x${string}` {
  const index = Number.parseInt(requestDigest.slice(0, 8), 16) % facilitators.length
  const [first] = facilitators
  const chosen = facilitators[index] ?? first
  if (!chosen) throw new Error('no facilitator address is configured')
  return chosen
}
