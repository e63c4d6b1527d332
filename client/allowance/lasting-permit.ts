import type { FareboxContext } from '../context.ts'
import type { Challenge } from '../payment/challenge.ts'
import type { LastingPermit } from '../payment/sign-payment.ts'
import type { AllowanceStatus } from '../wire/schemas.ts'
import { PERMIT2_ADDRESS, permitMessage } from './allowance-terms.ts'

/** One that ends sooner is signed again: a long call must be settled before. */
const RENEWED_BEFORE_MS = 30 * 60_000

/** Returns whether a service submits a permit with a payment that is for later payments, too. */
export function takesLastingPermits({ required }: Pick<Challenge, 'required'>): boolean {
  const declared = required.extensions?.['eip2612GasSponsoring'] as { info?: { lasting?: unknown } } | undefined
  return declared?.info?.lasting === true
}

/** The lasting permit that the payments of one client bring until it is on chain. */
export interface SharedPermit {
  /** Returns it if a payment of `maximum` may bring it beside all that are under way. */
  present(maximum: bigint): LastingPermit | null
  /** Returns what a payment may bring now: the present one while its nonce is not used, or else one that is signed now. */
  obtain(status: AllowanceStatus, terms: { readonly maximum: bigint; readonly value: bigint }): Promise<LastingPermit>
  /** It is on chain: payments bring it no longer. */
  drop(): void
}

/** Creates it; `onSigned` is called with what Permit2 may take. */
export function createSharedPermit(
  {
    budget,
    payer,
    pins,
    baseUrl,
    now,
    wallet,
  }: Pick<FareboxContext, 'payer' | 'pins' | 'baseUrl' | 'now' | 'wallet'> & {
    readonly budget: Pick<FareboxContext['budget'], 'underWay'>
  },
  onSigned: (value: bigint) => void,
): SharedPermit {
  let shared: LastingPermit | null = null
  const present = (maximum: bigint): LastingPermit | null => {
    if (!shared || Number(shared.deadline) * 1000 - now() < RENEWED_BEFORE_MS) return null
    const value = BigInt(shared.amount)
    return value > maximum && value >= budget.underWay() ? shared : null
  }
  return {
    present,
    drop: () => {
      shared = null
    },
    obtain: async (status, { maximum, value }) => {
      const known = present(maximum)
      if (known?.nonce === status.permit_nonce) return known
      const terms = pins.termsOf(new URL(baseUrl).origin)
      const typedData = permitMessage(status, value, { terms, owner: payer, now: now() })
      const { nonce, deadline } = typedData.message as { nonce: bigint; deadline: bigint }
      const signature = await wallet.signTypedData(typedData)
      shared = {
        from: payer,
        asset: status.asset,
        spender: PERMIT2_ADDRESS,
        amount: value.toString(),
        nonce: nonce.toString(),
        deadline: deadline.toString(),
        signature,
        version: '1',
      }
      onSigned(value)
      return shared
    },
  }
}
