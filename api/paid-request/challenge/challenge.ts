import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { AnyOperation } from '#shared/operations/registry.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import { chargeBoundsSchema } from '#shared/pricing/bounded-charge.ts'
import type { Quote } from '#shared/pricing/quote.ts'
import type { Listings } from './listing.ts'
import { renderPaymentRequired } from './payment-required.ts'

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

interface ChallengeDependencies {
  readonly terms: PaymentTerms
  readonly challengeSecrets: ChallengeSecrets
  readonly listings: Listings
  readonly signer: StatementSigner
}

const gasMinimumSchema = chargeBoundsSchema.pick({ gas_minimum_charge_usd: true })

/** Renders the 402 (or 412) that offers `challenge`. `refusal` is the reason why a presented payment was refused. */
export function renderChallenge(
  { terms, challengeSecrets, listings, signer }: ChallengeDependencies,
  challenge: Challenge,
  requestId: string,
  refusal?: AppError,
) {
  const { operation, requestDigest, quote, expiresAt } = challenge
  const { quotedMaximum } = quote
  const { gas_minimum_charge_usd: gasMinimum } = gasMinimumSchema.parse(quote.terms)
  const atLeast = gasMinimum === undefined ? '' : `, and at least ${gasMinimum} USDC, the expected cost of settling it`
  const listing = listings[operation.id]
  return renderPaymentRequired({
    terms,
    listing,
    extensions: listing.pricedExtensions(),
    signer,
    maximum: quotedMaximum,
    validUntil: expiresAt,
    message: `This request costs at most ${dollarsFromAtomic(quotedMaximum)} USDC${atLeast}. Sign the challenge in PAYMENT-REQUIRED and retry.`,
    extra: {
      facilitatorAddress: facilitatorFor(terms, requestDigest),
      challenge: sealChallengeToken({ ...challenge, quotedMaximum }, challengeSecrets),
      expiresAt: expiresAt.toISOString(),
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
