import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'

export interface PaymentCheckDependencies {
  readonly verifier: Pick<AuthorizationVerifier, 'verify'>
  readonly providerTimeoutMs: number
  readonly settlementMarginMs: number
  readonly now: () => Date
}

export type PaymentCheck =
  | { readonly outcome: 'payable' }
  | { readonly outcome: 'refused'; readonly code: ErrorCode; readonly reason: string }
  | { readonly outcome: 'unreachable' }

/**
 * The last look before money is spent upstream: whether a whole provider call and the settlement still fit before the
 * authorization expires, and whether it could be settled at its maximum now. The payer can move funds at any time.
 */
export async function checkPaymentAgain(
  { verifier, providerTimeoutMs, settlementMarginMs, now }: PaymentCheckDependencies,
  { authorization }: ClaimedJob,
): Promise<PaymentCheck> {
  const remainingMs = Number(authorization.deadline) * 1000 - now().getTime()
  if (remainingMs < providerTimeoutMs + settlementMarginMs)
    return { outcome: 'refused', code: 'authorization_too_short', reason: 'too little time left before the call' }
  const verification = await verifier.verify(authorization, authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable') return { outcome: 'unreachable' }
  if (verification.outcome === 'refused')
    return { outcome: 'refused', code: verification.code, reason: 'refused before the provider call' }
  return { outcome: 'payable' }
}
