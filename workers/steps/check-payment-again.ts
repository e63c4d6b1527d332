import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ChainClock } from '#shared/payment/chain-clock.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import type { Gas, GasReader } from '#shared/payment/gas-reader.ts'

export interface PaymentCheckDependencies {
  readonly verifier: Pick<AuthorizationVerifier, 'verify'>
  readonly chainClock: Pick<ChainClock, 'chainNow'>
  readonly gas: GasReader
  readonly providerTimeoutMs: number
  readonly settlementMarginMs: number
}

export type PaymentCheck =
  | { readonly outcome: 'payable' }
  | { readonly outcome: 'refused'; readonly code: ErrorCode; readonly reason: string }
  | { readonly outcome: 'unreachable' }
  /** The settlement key has no gas left: what is produced now could not be charged. */
  | { readonly outcome: 'no_gas' }

/**
 * The last look before money is spent upstream: whether a whole provider call and the settlement still fit before the
 * authorization expires by chain time, whether it could be settled at its maximum now, and whether we could pay for that. The
 * payer can move funds at any time.
 */
export async function checkPaymentAgain(
  { verifier, chainClock, gas, providerTimeoutMs, settlementMarginMs }: PaymentCheckDependencies,
  { authorization }: ClaimedJob,
): Promise<PaymentCheck> {
  const [verification, network] = await Promise.all([
    verifier.verify(authorization, authorization.authorizedMaximum),
    readNetwork(chainClock, gas, authorization.facilitator),
  ])
  if (!network) return { outcome: 'unreachable' }
  const remainingMs = Number(authorization.deadline) * 1000 - network.now.getTime()
  if (remainingMs < providerTimeoutMs + settlementMarginMs)
    return { outcome: 'refused', code: 'authorization_too_short', reason: 'too little time left before the call' }
  if (verification.outcome === 'unreachable') return { outcome: 'unreachable' }
  if (verification.outcome === 'refused')
    return { outcome: 'refused', code: verification.code, reason: 'refused before the provider call' }
  return network.gas.settlementsLeft < 1 ? { outcome: 'no_gas' } : { outcome: 'payable' }
}

async function readNetwork(
  chainClock: Pick<ChainClock, 'chainNow'>,
  gasReader: GasReader,
  facilitator: `0x${string}`,
): Promise<{ now: Date; gas: Gas } | null> {
  try {
    const [now, gas] = await Promise.all([chainClock.chainNow(), gasReader.readGas(facilitator)])
    return { now, gas }
  } catch {
    return null
  }
}
