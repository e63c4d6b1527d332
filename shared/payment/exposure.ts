import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerFunds } from './payer-funds.ts'

/** A payment whose work is under way: its signed maximum, or its charge once that is fixed. */
export interface OpenPayment {
  readonly nonce: bigint
  readonly amount: AtomicAmount
  /** It brings its own allowance, by a permit that is submitted with it. */
  readonly byPermit: boolean
  /** Its transaction may be on chain already. */
  readonly isSettling: boolean
}

/** What a payer owes beside the payment that is looked at. */
export interface Exposure {
  readonly open: readonly OpenPayment[]
  /** Charges settled since the payer's funds were read. */
  readonly settledSince: AtomicAmount
}

/** How often the funds of a payer are read for one payment: the second reading knows of settlements that the first could not be asked about. */
export const MAXIMUM_READINGS = 2

/** What a reading of the funds has to ask the chain about: whether these nonces are used up already. */
export function settlingNonces({ open }: Exposure): readonly bigint[] {
  return open.filter(({ isSettling }) => isSettling).map(({ nonce }) => nonce)
}

/** Everything that `exposure` still takes from the payer's balance. */
export function openTotal({ open, settledSince }: Exposure, funds: PayerFunds | null): AtomicAmount {
  const unused = open.filter(({ nonce }) => !funds?.usedNonces.has(nonce))
  return atomicAmount(unused.reduce((sum, { amount }) => sum + amount, settledSince as bigint))
}

/**
 * Whether a payment fits into what the payer holds beside everything open: Σ open maxima ≤ min(balance, allowance). Without
 * a reading of the funds only a payer with nothing else open fits: the payment's own verification has proved that much.
 */
export function fitsFunds(
  payment: { readonly maximum: AtomicAmount; readonly needsPermit: boolean },
  exposure: Exposure,
  funds: PayerFunds | null,
): boolean {
  if (!funds) return exposure.open.length === 0 && exposure.settledSince === 0n
  const fitsBalance = openTotal(exposure, funds) + payment.maximum <= funds.balance
  if (payment.needsPermit) return fitsBalance
  const plain = { ...exposure, open: exposure.open.filter(({ byPermit }) => !byPermit) }
  return fitsBalance && openTotal(plain, funds) + payment.maximum <= funds.allowance
}

/**
 * Whether a payment by permit meets one without: a permit replaces the allowance that the other one counts on, so whichever
 * settles second could fail.
 */
export function mixesPermits(needsPermit: boolean, { open }: Exposure): boolean {
  return open.some(({ byPermit }) => byPermit !== needsPermit)
}
