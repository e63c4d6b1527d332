import { AppError } from '#shared/errors/app-error.ts'
import { type Authorization, authorizationOf } from '#shared/payment/authorization.ts'
import { openChallengeToken } from '#shared/payment/challenge-token.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import { type AcceptedTerms, decodePaymentSignature } from '#shared/payment/x402-wire.ts'
import type { ChallengeSubject } from './payment-challenge.ts'

/** A payment that was really signed by its payer, to us, for this request. Whether it can still be settled is open. */
export interface PresentedPayment {
  readonly authorization: Authorization
  /** When the challenge it answers ran out. */
  readonly challengeExpiresAt: Date
}

interface Dependencies {
  readonly terms: PaymentTerms
  readonly challengeSecret: string
  readonly verifier: AuthorizationVerifier
}

/**
 * Decodes a `PAYMENT-SIGNATURE` and holds it against the request it should pay for. Local computation only. Throws
 * `invalid_payment_header` (400), `challenge_mismatch` (409) when it was signed for another request, and the 402 codes
 * of everything in it that differs from what was asked for.
 */
export async function readAuthorization(
  { terms, challengeSecret, verifier }: Dependencies,
  header: string,
  subject: ChallengeSubject,
): Promise<PresentedPayment> {
  const decoded = decodePaymentSignature(header)
  if (decoded.outcome === 'malformed')
    throw new AppError('invalid_payment_header', {
      param: 'PAYMENT-SIGNATURE',
      message: `PAYMENT-SIGNATURE is not an x402 v2 "upto" payment: ${decoded.reason}.`,
    })
  if (decoded.outcome === 'other_scheme') throw new AppError('payment_scheme_mismatch')
  const { accepted } = decoded.payment
  const authorization = authorizationOf(decoded.payment)
  requireOurTerms(accepted, authorization, terms)

  const opened = openChallengeToken(accepted.extra?.['challenge'], subject, challengeSecret)
  if (opened.outcome === 'forged')
    throw new AppError('payment_terms_mismatch', {
      message:
        'The payment does not carry the challenge token of accepts[0].extra. Sign the challenge as it was given.',
    })
  if (!opened.matchesRequest) throw new AppError('challenge_mismatch')
  requireAmount(accepted.amount, opened.quotedMaximum.toString())
  requireAmount(authorization.authorizedMaximum.toString(), opened.quotedMaximum.toString())
  if (!(await verifier.isSignedByPayer(authorization))) throw new AppError('payment_signature_invalid')
  return { authorization, challengeExpiresAt: opened.expiresAt }
}

/**
 * Whether the payment binds itself to this service. It matters for replays too: settlements stand on chain for all to
 * read, so a signature to somebody else, or to another recipient, must never open a result here.
 */
function requireOurTerms(accepted: AcceptedTerms, authorization: Authorization, terms: PaymentTerms): void {
  if (accepted.network !== terms.network) throw new AppError('payment_network_mismatch')
  if (accepted.asset.toLowerCase() !== terms.asset || authorization.asset !== terms.asset)
    throw new AppError('payment_asset_mismatch')
  if (accepted.payTo.toLowerCase() !== terms.payTo || authorization.payTo !== terms.payTo)
    throw new AppError('payment_recipient_mismatch')
  if (authorization.spender !== terms.spender) throw new AppError('payment_spender_mismatch')
  if (!terms.facilitators.includes(authorization.facilitator)) throw new AppError('payment_facilitator_mismatch')
}

function requireAmount(signed: string, quoted: string): void {
  if (signed !== quoted)
    throw new AppError('payment_amount_mismatch', {
      message: `The payment is for ${signed} atomic USDC; the challenge asks for ${quoted}.`,
    })
}
