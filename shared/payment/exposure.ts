import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerFunds } from './payer-funds.ts'

/** A payment of work in progress. `amount` is its signed maximum, or its charge once that is fixed. */
export interface OpenPayment {
  readonly nonce: bigint
  readonly amount: AtomicAmount
  /** Whether the payment's allowance comes from a permit that is submitted with it. */
  readonly byPermit: boolean
  /** Whether the payment's transaction may already be on chain. */
  readonly isSettling: boolean
}

/** A payer's open payments and recent charges, without the payment being checked. */
export interface Exposure {
  readonly open: readonly OpenPayment[]
  /** Charges settled since the payer's funds were read. */
  readonly settledSince: AtomicAmount
}

/**
 * Maximum number of readings of a payer's funds for one payment. The second one includes settlements that started after
 * the first.
 */
export const MAXIMUM_READINGS = 2

/** Returns the nonces that a reading of the funds must check: their payments may already be on chain. */
export function settlingNonces({ open }: Exposure): readonly bigint[] {
  return open.filter(({ isSettling }) => isSettling).map(({ nonce }) => nonce)
}

/** Returns the sum that `exposure` will still take from the payer's balance. */
export function openTotal({ open, settledSince }: Exposure, funds: PayerFunds | null): AtomicAmount {
  const unused = open.filter(({ nonce }) => !funds?.usedNonces.has(nonce))
  return atomicAmount(unused.reduce((sum, { amount }) => sum + amount, settledSince as bigint))
}

/**
 * Returns whether the payer's funds cover a payment in addition to everything open: Σ open maxima ≤ min(balance,
 * allowance). Without a reading of the funds a payment fits only when nothing else is open: its own verification has
 * proved that much.
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
 * Returns whether a payment by permit and one without would be open together. A permit replaces the allowance that the
 * other payment relies on, so the second settlement could fail.
 */
export function mixesPermits(needsPermit: boolean, { open }: Exposure): boolean {
  return open.some(({ byPermit }) => byPermit !== needsPermit)
}
