import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import { renderPaymentRequired } from './payment-required.ts'

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
  readonly signer: StatementSigner
}

/** Status, headers and body of the 402 (or 412) that offers `challenge`. `refusal` tells why a given payment was not taken. */
export function renderChallenge(
  { terms, challengeSecret, publicBaseUrl, signer }: ChallengeDependencies,
  challenge: Challenge,
  requestId: string,
  refusal?: AppError,
) {
  const { operation, requestDigest, quote, expiresAt } = challenge
  const { quotedMaximum } = quote
  return renderPaymentRequired({
    terms,
    publicBaseUrl,
    signer,
    operation,
    maximum: quotedMaximum,
    validUntil: expiresAt,
    message: `This request costs at most ${dollarsFromAtomic(quotedMaximum)} USDC. Sign the challenge in PAYMENT-REQUIRED and retry.`,
    extra: {
      facilitatorAddress: facilitatorFor(terms, requestDigest),
      challenge: sealChallengeToken({ ...challenge, quotedMaximum }, challengeSecret),
      expiresAt: expiresAt.toISOString(),
    },
    refusal,
    requestId,
  })
}

/** Deterministic over the request, so that the same challenge names the same settling key on every API process. */
function facilitatorFor({ facilitators }: PaymentTerms, requestDigest: string): `0x${string}` {
  const index = Number.parseInt(requestDigest.slice(0, 8), 16) % facilitators.length
  const [first] = facilitators
  const chosen = facilitators[index] ?? first
  if (!chosen) throw new Error('no facilitator address is configured')
  return chosen
}
