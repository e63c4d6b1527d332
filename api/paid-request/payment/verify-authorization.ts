import { AppError } from '#shared/errors/app-error.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { ChainClock } from '#shared/payment/chain-clock.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { Challenge } from '../challenge/challenge.ts'
import type { PresentedPayment } from './read-authorization.ts'

interface Dependencies {
  readonly terms: PaymentTerms
  readonly verifier: AuthorizationVerifier
  readonly chainClock: Pick<ChainClock, 'chainNow'>
  readonly now: () => Date
}

/** A payment that is accepted for new work. */
export interface VerifiedPayment {
  readonly authorization: Authorization
  /** Whether it can be settled only by submitting the permit that it includes. */
  readonly needsPermit: boolean
  /** Start of the verification, on the process's monotonic clock. */
  readonly verifiedAtMs: number
}

/**
 * Verifies that a payment can pay for new work: valid long enough, at the price of the challenge, and settleable on
 * chain at its maximum. Throws the 402 and 412 codes otherwise, and `payment_network_unavailable` (503) when the chain
 * cannot be read.
 */
export async function verifyAuthorization(
  { terms, verifier, chainClock, now }: Dependencies,
  { authorization, challengeExpiresAt, alteredTerm }: PresentedPayment,
  challenge: Challenge,
): Promise<VerifiedPayment> {
  const verifiedAtMs = performance.now()
  if (alteredTerm !== null)
    throw new AppError('payment_terms_mismatch', {
      message: `The payment repeats the challenge with a different ${alteredTerm}. Sign the challenge without changing it.`,
    })
  if (challengeExpiresAt <= now()) throw new AppError('challenge_expired')
  if (authorization.authorizedMaximum !== challenge.quote.quotedMaximum) throw new AppError('payment_amount_mismatch')
  const nowSeconds = BigInt(Math.floor((await chainClock.chainNow()).getTime() / 1000))
  requireTime(authorization.deadline, nowSeconds, terms)
  if (authorization.validAfter > nowSeconds) throw new AppError('payment_not_yet_valid')
  requireGasSponsoringTerms(authorization, nowSeconds, terms)

  const verification = await verifier.verify(authorization, authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable')
    throw new AppError('payment_network_unavailable', { cause: verification.cause })
  if (verification.outcome === 'refused') {
    const { code, detail } = verification
    throw new AppError(code, detail === undefined ? {} : { message: detail })
  }
  return { authorization, needsPermit: verification.needsPermit, verifiedAtMs }
}

/** Throws unless the provider call and the settlement both fit before the signature expires. */
function requireTime(deadline: bigint, nowSeconds: bigint, { minimumRemainingSeconds }: PaymentTerms): void {
  if (deadline - nowSeconds < BigInt(minimumRemainingSeconds))
    throw new AppError('payment_expired', {
      message: `The payment must stay valid for at least ${minimumRemainingSeconds} seconds.`,
    })
}

function requireGasSponsoringTerms(
  { gasSponsoring, ...signed }: Authorization,
  nowSeconds: bigint,
  terms: PaymentTerms,
): void {
  if (!gasSponsoring) return
  requireTime(gasSponsoring.deadline, nowSeconds, terms)
  const problem =
    (gasSponsoring.from !== signed.payer && 'from is not the payer') ||
    (gasSponsoring.asset !== signed.asset && 'asset is not the challenged one') ||
    (gasSponsoring.spender !== terms.permit2 && 'spender is not Permit2') ||
    (gasSponsoring.amount < signed.authorizedMaximum && 'amount is less than the signed maximum')
  if (problem)
    throw new AppError('payment_rejected', { message: `The gas-sponsoring permit cannot be used: ${problem}.` })
}
