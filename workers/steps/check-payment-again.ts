import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import { fitsFunds } from '#shared/payment/exposure.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { PayerFundsReader } from '#shared/payment/payer-funds.ts'

/** The second reading knows of settlements that the first could not be asked about. */
const MAXIMUM_READINGS = 2

export interface PaymentCheckDependencies {
  readonly store: Pick<ExecutionStore, 'readExposureAhead'>
  readonly verifier: Pick<AuthorizationVerifier, 'verify'>
  readonly payerFunds: PayerFundsReader
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
  dependencies: PaymentCheckDependencies,
  job: ClaimedJob,
): Promise<PaymentCheck> {
  const { verifier, providerTimeoutMs, settlementMarginMs, now } = dependencies
  const { authorization } = job
  const remainingMs = Number(authorization.deadline) * 1000 - now().getTime()
  if (remainingMs < providerTimeoutMs + settlementMarginMs)
    return { outcome: 'refused', code: 'authorization_too_short', reason: 'too little time left before the call' }
  const verification = await verifier.verify(authorization, authorization.authorizedMaximum)
  if (verification.outcome === 'unreachable') return { outcome: 'unreachable' }
  if (verification.outcome === 'refused')
    return { outcome: 'refused', code: verification.code, reason: 'refused before the provider call' }
  return checkFunds(dependencies, job, verification.needsPermit)
}

/**
 * Whether the payer still holds enough for all of his work up to this job, in the order of acceptance: alone each of many
 * jobs may look payable to a payer who moved most of his funds.
 */
async function checkFunds(
  { store, payerFunds }: PaymentCheckDependencies,
  job: ClaimedJob,
  needsPermit: boolean,
): Promise<PaymentCheck> {
  const { payer, authorizedMaximum: maximum } = job.authorization
  let funds = payerFunds.recent(payer)
  for (let readings = 0; ; readings += 1) {
    const exposure = await store.readExposureAhead(job, funds)
    if (exposure.open.length === 0 || fitsFunds({ maximum, needsPermit }, exposure, funds))
      return { outcome: 'payable' }
    if (readings === MAXIMUM_READINGS)
      return { outcome: 'refused', code: 'insufficient_funds', reason: 'earlier work takes what the payer holds' }
    const settling = exposure.open.filter(({ isSettling }) => isSettling).map(({ nonce }) => nonce)
    const reading = await payerFunds.read(payer, settling)
    if (reading.outcome === 'unreachable') return { outcome: 'unreachable' }
    funds = reading.funds
  }
}
