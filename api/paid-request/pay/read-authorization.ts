import { AppError } from '#shared/errors/app-error.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { ChallengeSecrets } from '#shared/payment/challenge-secrets.ts'
import { openChallengeToken } from '#shared/payment/challenge-token.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { HOW_TO_PAY } from '#shared/payment/how-to-pay.ts'
import { type PaymentTerms, SIGNING_TERMS } from '#shared/payment/payment-terms.ts'
import type { AcceptedTerms, PaymentHeader, SignedPayment } from '#shared/payment/x402-wire.ts'
import type { ChallengeSubject } from '../quote/challenge.ts'
import { resourceUrl } from '../quote/listing.ts'

/**
 * A payment to this service for this request, which its payer signed if `isProven`. Whether it can be settled is not known
 * yet.
 */
export interface PresentedPayment {
  readonly authorization: Authorization
  /**
   * Whether the key of the payer's account signed. Otherwise only the chain knows whether the payer's wallet takes the
   * signature, and anybody can make one up.
   */
  readonly isProven: boolean
  /** Whether the signature came in an envelope for a wallet that may not be deployed yet (ERC-6492). */
  readonly isWrapped: boolean
  /** SHA-256 of the token of the challenge that it answers. */
  readonly challengeTokenSha256: string
  /** When the challenge that it answers expires. */
  readonly challengeExpiresAt: Date
  /**
   * The first unsigned part of the challenge that it does not repeat unchanged, or `null`. Replays are served
   * regardless.
   */
  readonly alteredTerm: string | null
}

/** What a payment is read with. */
export interface SignatureContext {
  readonly terms: PaymentTerms
  readonly publicBaseUrl: string
  readonly challengeSecrets: ChallengeSecrets
  readonly verifier: AuthorizationVerifier
}

/**
 * Checks a `PAYMENT-SIGNATURE` against the request it should pay for, without network calls. Throws
 * `invalid_payment_header` (400), `challenge_mismatch` (409) when it was signed for another request, and the 402 code
 * of whatever differs from the challenge.
 */
export function readAuthorization(
  { terms, publicBaseUrl, challengeSecrets, verifier }: SignatureContext,
  { decoded }: PaymentHeader,
  subject: ChallengeSubject,
): PresentedPayment {
  if (decoded.outcome === 'malformed') throw invalidPayment(decoded.reason)
  if (decoded.outcome === 'other_scheme')
    throw new AppError('payment_scheme_mismatch', {
      message: `The payment was signed for another scheme than "upto"; nothing was submitted. ${HOW_TO_PAY}.`,
    })
  const { accepted, authorization } = decoded.payment
  requireOurTerms(accepted, authorization, terms)

  const opened = openChallengeToken(accepted.extra?.['challenge'], subject, challengeSecrets)
  if (opened.outcome === 'forged')
    throw new AppError('payment_terms_mismatch', {
      message:
        'The payment does not carry the challenge token of accepts[0].extra. Sign the challenge without changing it.',
    })
  if (!opened.matchesRequest) throw new AppError('challenge_mismatch')
  requireAmount(accepted.amount, opened.quotedMaximum.toString())
  requireAmount(authorization.authorizedMaximum.toString(), opened.quotedMaximum.toString())
  const resource = resourceUrl(subject.operation, publicBaseUrl)
  const alteredTerm = findAlteredTerm(decoded.payment, { ...terms, resource, expiresAt: opened.expiresAt })
  const signedBy = verifier.isSignedByPayer(authorization)
  if (signedBy === 'no') throw new AppError('payment_signature_invalid')
  const isProven = signedBy === 'key'
  return {
    // A wallet that is a contract signs no permit, and nobody else's may take the payer's turn.
    authorization: isProven || authorization.gasSponsoring === null ? authorization : withoutPermit(authorization),
    isProven,
    isWrapped: decoded.payment.isWrapped,
    challengeTokenSha256: opened.tokenSha256,
    challengeExpiresAt: opened.expiresAt,
    alteredTerm,
  }
}

function withoutPermit(authorization: Authorization): Authorization {
  return { ...authorization, gasSponsoring: null }
}

/** Creates the error of what is no payment at all. */
export function invalidPayment(reason: string): AppError {
  return new AppError('invalid_payment_header', {
    param: 'PAYMENT-SIGNATURE',
    message: `PAYMENT-SIGNATURE is not an x402 v2 "upto" payment: ${reason}.`,
  })
}

/**
 * Throws unless the payment is bound to this service. Replays are checked too: settlements are public on chain, so a
 * signature for another service or recipient must never unlock a result here.
 */
function requireOurTerms(accepted: AcceptedTerms, authorization: Authorization, terms: PaymentTerms): void {
  if (accepted.network !== terms.network) throw new AppError('payment_network_mismatch')
  if (!isSameAddress(accepted.asset, terms.asset) || authorization.asset !== terms.asset)
    throw new AppError('payment_asset_mismatch')
  if (!terms.acceptedRecipients.includes(authorization.payTo) || !isSameAddress(accepted.payTo, authorization.payTo))
    throw new AppError('payment_recipient_mismatch')
  if (authorization.spender !== terms.spender) throw new AppError('payment_spender_mismatch')
  if (!terms.acceptedFacilitators.includes(authorization.facilitator))
    throw new AppError('payment_facilitator_mismatch')
}

/**
 * Returns the first part of the echoed challenge that was changed and that the signature does not cover, or `null`.
 * `extra` may gain members and the resource may be left out, but what is paid for, how, and until when must not differ.
 */
function findAlteredTerm(
  { accepted, resourceUrl, authorization }: SignedPayment,
  {
    maxTimeoutSeconds,
    formerFacilitators,
    resource,
    expiresAt,
  }: Pick<PaymentTerms, 'maxTimeoutSeconds' | 'formerFacilitators'> & {
    readonly resource: string
    readonly expiresAt: Date
  },
): string | null {
  const { extra = {} } = accepted
  const facilitator = extra['facilitatorAddress']
  const altered = [
    resourceUrl !== null && resourceUrl !== resource && 'resource.url',
    accepted.maxTimeoutSeconds !== maxTimeoutSeconds && 'accepted.maxTimeoutSeconds',
    (typeof facilitator !== 'string' ||
      !isSameAddress(facilitator, authorization.facilitator) ||
      formerFacilitators.includes(authorization.facilitator)) &&
      'accepted.extra.facilitatorAddress',
    !isTimeWithin(extra['expiresAt'], expiresAt) && 'accepted.extra.expiresAt',
    ...Object.entries(SIGNING_TERMS).map(([name, value]) => extra[name] !== value && `accepted.extra.${name}`),
  ]
  return altered.find((term) => term !== false) ?? null
}

/** Returns whether `text` is a time in ISO 8601, spelled as challenges spell it, within the second of `second`. */
function isTimeWithin(text: unknown, second: Date): boolean {
  if (typeof text !== 'string' || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/.test(text)) return false
  return Math.floor(Date.parse(text) / 1000) === second.getTime() / 1000
}

/** Compares addresses case-insensitively, except for the `x` of the `0x` prefix. */
function isSameAddress(text: string, address: `0x${string}`): boolean {
  return text.startsWith('0x') && text.toLowerCase() === address
}

function requireAmount(signed: string, quoted: string): void {
  if (signed !== quoted)
    throw new AppError('payment_amount_mismatch', {
      message: `The payment is for ${signed} atomic USDC; the challenge requires ${quoted}.`,
    })
}
