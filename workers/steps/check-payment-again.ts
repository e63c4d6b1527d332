import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { StepOutcome } from '../step-outcome.ts'
import { failWith } from './fail-with.ts'

export interface PaymentCheckDependencies {
  readonly store: Pick<ExecutionStore, 'failJob'>
  readonly verifier: Pick<AuthorizationVerifier, 'verify'>
  readonly providerTimeoutMs: number
  readonly settlementMarginMs: number
  readonly now: () => Date
}

/** Between attempts to ask a chain that cannot be reached. */
const CHAIN_RETRY_MS = 2000

/** The payer can move funds at any time; the last look before money is spent upstream. `null` when the call may go on. */
export async function checkPaymentAgain(
  dependencies: PaymentCheckDependencies,
  job: ClaimedJob,
): Promise<StepOutcome | null> {
  const { store, verifier } = dependencies
  if (!hasTimeForACall(dependencies, job))
    return failWith(store, job, {
      code: 'authorization_too_short',
      reason: 'too little time left before the call',
      attempt: 'none',
    })
  const verification = await verifier.verify(job.authorization, job.authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  if (verification.outcome === 'refused')
    return failWith(store, job, {
      code: verification.code,
      reason: 'refused before the provider call',
      attempt: 'none',
    })
  return null
}

/** Whether a whole provider call and the settlement still fit before the authorization expires. */
export function hasTimeForACall(
  { providerTimeoutMs, settlementMarginMs, now }: Omit<PaymentCheckDependencies, 'store' | 'verifier'>,
  { authorization }: ClaimedJob,
): boolean {
  return Number(authorization.deadline) * 1000 - now().getTime() >= providerTimeoutMs + settlementMarginMs
}
