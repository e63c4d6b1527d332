import type { FastifyRequest } from 'fastify'
import type { BalanceReader } from '#shared/chain/reading/balance-reader.ts'
import type { ChainClock } from '#shared/chain/reading/chain-clock.ts'
import { AppError, type AppErrorDetails } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { extraOutputSeconds } from '#shared/operations/text/output-time.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { Challenge } from '../quote/challenge.ts'
import type { PayerMemory } from './payer-memory.ts'
import { type PayerScreen, requirePermitted, requireUnlisted } from './payer-screen.ts'
import { approvalCall, approvalMessage, requiredPermit, requiredPermitMessage } from './permit-terms.ts'
import type { PresentedPayment, SignatureContext } from './read-authorization.ts'
import { type StoredPermitContext, usablePermit, useStoredPermit } from './use-stored-permit.ts'

/**
 * Takes from the rate of the caller's network for verifications of new payers. Throws `rate_limited` (429). Returns
 * the function that gives it back, for a payment that verifies.
 */
export type VerificationLimiter = (request: Pick<FastifyRequest, 'ip'>) => () => void

/** What payments for new work are verified with. */
export interface VerificationContext extends SignatureContext, StoredPermitContext {
  readonly terms: PaymentTerms
  readonly chainClock: Pick<ChainClock, 'chainNow'>
  /** Throws while fees on the network are above what settlements may offer. */
  readonly requireFees: () => Promise<void>
  readonly payerScreen: PayerScreen
  readonly balances: BalanceReader
  readonly payers: PayerMemory
  readonly limitVerifications: VerificationLimiter
  readonly now: () => Date
}

/** `storedPermit`: that of its payer when the payment arrived. */
interface PaymentToVerify extends PresentedPayment {
  readonly storedPermit: AllowancePermit | null
}

/** A payment that is accepted for new work, with the permit that its payer stored instead of its own. */
export interface VerifiedPayment extends Pick<PresentedPayment, 'authorization' | 'challengeTokenSha256'> {
  /** Whether it can be settled only by submitting the permit that it includes. */
  readonly needsPermit: boolean
  /** Start of the verification, on the process's monotonic clock. */
  readonly verifiedAtMs: number
}

/**
 * Verifies that a payment can pay for new work: valid long enough, at the price of the challenge, and settleable on
 * chain at its maximum. Throws the 402 and 412 codes otherwise, `rate_limited` (429) when too many new payers come from
 * the caller's network, and `payment_network_unavailable` (503) when the chain cannot be read.
 */
export async function verifyAuthorization(
  context: VerificationContext,
  payment: PaymentToVerify,
  challenge: Challenge,
  request: Pick<FastifyRequest, 'ip'>,
): Promise<VerifiedPayment> {
  const { terms, verifier, chainClock, requireFees, payers, now } = context
  const { authorization: signed, challengeTokenSha256, challengeExpiresAt, alteredTerm } = payment
  const verifiedAtMs = performance.now()
  if (alteredTerm !== null)
    throw new AppError('payment_terms_mismatch', {
      message: `The payment repeats the challenge with a different ${alteredTerm}. Sign the challenge without changing it.`,
    })
  if (challengeExpiresAt <= now()) throw new AppError('challenge_expired')
  requirePermitted(context.payerScreen, signed.payer)
  if (signed.authorizedMaximum !== challenge.quote.quotedMaximum) throw new AppError('payment_amount_mismatch')
  // The same payment under another key: the signature does not cover the key.
  const recent = payers.findRefusal(signed)
  if (recent) throw recent.error
  const [chainNow, found] = await Promise.all([chainClock.chainNow(), usablePermit(context, payment), requireFees()])
  const nowSeconds = BigInt(Math.floor(chainNow.getTime() / 1000))
  const neededSeconds = secondsNeeded(terms, challenge)
  requireTime(signed.deadline, nowSeconds, neededSeconds)
  if (signed.validAfter > nowSeconds) throw new AppError('payment_not_yet_valid')
  const stored = found !== null && hasTime(found.deadline, nowSeconds, neededSeconds) ? found : null
  if (stored === null) requireGasSponsoringTerms(signed, nowSeconds, terms, neededSeconds)

  const isKnown = payers.isKnown(signed.payer)
  // A signature that only the chain can judge costs no key: whoever made it up is a stranger.
  const giveBack = isKnown && payment.isProven ? null : context.limitVerifications(request)
  await requireUnlisted(context.payerScreen, signed.payer)
  if (!isKnown) await requireBalance(context, signed)
  const authorization = stored === null ? signed : await useStoredPermit(context, signed, stored)
  // Its own permit counts after all.
  if (stored !== null && authorization === signed) requireGasSponsoringTerms(signed, nowSeconds, terms, neededSeconds)
  const verification = await verifier.verify(authorization, authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable')
    throw new AppError('payment_network_unavailable', {
      cause: verification.cause,
      ...(verification.detail !== undefined && { message: verification.detail }),
    })
  if (verification.outcome === 'refused') {
    const code = codeOf(payment, verification)
    const error = new AppError(code, detailsOf(context, payment, verification, nowSeconds))
    throw code === 'permit_already_used' ? payers.rememberRefusal(signed, error, challenge) : error
  }
  payers.rememberVerified(authorization.payer)
  giveBack?.()
  return { authorization, challengeTokenSha256, needsPermit: verification.needsPermit, verifiedAtMs }
}

type Refusal = Extract<Verification, { outcome: 'refused' }>

/** Characters of `0x` and the 65 bytes of a key's signature. */
const KEY_SIGNATURE_LENGTH = 132

/**
 * Returns the code of a refusal. An account without code whose signature looks like a key's has been signed for by another
 * key; any other signature is that of a wallet that is not there yet.
 */
function codeOf({ authorization, isWrapped }: PresentedPayment, { code }: Refusal): ErrorCode {
  const isOfKey = !isWrapped && authorization.signature.length === KEY_SIGNATURE_LENGTH
  return code === 'payer_not_deployed' && isOfKey ? 'payment_signature_invalid' : code
}

/**
 * Returns what to say of a refusal; a missing allowance comes with the permit that its payer can sign instead, or with the
 * transaction that a contract wallet sends.
 */
function detailsOf(
  { terms, publicBaseUrl }: Pick<VerificationContext, 'terms' | 'publicBaseUrl'>,
  { authorization: { payer: owner, authorizedMaximum: maximum }, isProven }: PresentedPayment,
  { code, detail, permitNonce: nonce }: Refusal,
  nowSeconds: bigint,
): AppErrorDetails {
  if (code === 'permit2_allowance_required' && !isProven)
    return {
      message: `Permit2 may take too little of the payer’s USDC. ${approvalMessage(terms)}`,
      members: { approval: approvalCall(terms) },
    }
  if (nonce === undefined) return detail === undefined ? {} : { message: detail }
  const permit = requiredPermit(terms, { owner, nonce, nowSeconds, maximum, publicBaseUrl })
  return { message: requiredPermitMessage(terms), members: { permit } }
}

/**
 * Throws `insufficient_funds` for a payer who cannot pay at all. Only new payers are checked: an account without funds
 * costs a stranger nothing, so refusing it must take one RPC call instead of the several of a simulation and a
 * diagnosis.
 */
async function requireBalance(
  { balances }: Pick<VerificationContext, 'balances'>,
  { payer, authorizedMaximum }: Authorization,
): Promise<void> {
  const balance = await balances.readBalance(payer)
  if (balance >= authorizedMaximum) return
  const [available, needed] = [dollarsFromAtomic(balance), dollarsFromAtomic(authorizedMaximum)]
  throw new AppError('insufficient_funds', {
    message: `The payer has ${available} USDC; ${needed} USDC is needed.`,
  })
}

/** Returns how long a payment must still be valid; a request that may have a long answer needs more. */
function secondsNeeded(terms: PaymentTerms, { quote }: Pick<Challenge, 'quote'>): number {
  return terms.minimumRemainingSeconds + Math.ceil(extraOutputSeconds(quote.terms, terms.outputTokensPerSecond))
}

/** Throws unless the provider call and the settlement both fit before the signature expires. */
function requireTime(deadline: bigint, nowSeconds: bigint, neededSeconds: number): void {
  if (!hasTime(deadline, nowSeconds, neededSeconds))
    throw new AppError('payment_expired', {
      message: `The payment must stay valid for at least ${neededSeconds} seconds.`,
    })
}

function hasTime(deadline: bigint, nowSeconds: bigint, neededSeconds: number): boolean {
  return deadline - nowSeconds >= BigInt(neededSeconds)
}

function requireGasSponsoringTerms(
  { gasSponsoring, ...signed }: Authorization,
  nowSeconds: bigint,
  terms: PaymentTerms,
  neededSeconds: number,
): void {
  if (!gasSponsoring) return
  requireTime(gasSponsoring.deadline, nowSeconds, neededSeconds)
  const problem =
    (gasSponsoring.from !== signed.payer && 'from is not the payer') ||
    (gasSponsoring.asset !== signed.asset && 'asset is not the challenged one') ||
    (gasSponsoring.spender !== terms.permit2 && 'spender is not Permit2') ||
    (gasSponsoring.amount < signed.authorizedMaximum && 'amount is less than the signed maximum') ||
    (gasSponsoring.amount > signed.authorizedMaximum &&
      terms.settlementContract === null &&
      'amount is more than the signed maximum, and this service takes no lasting permit with a payment')
  if (problem)
    throw new AppError('payment_rejected', { message: `The gas-sponsoring permit cannot be used: ${problem}.` })
}
