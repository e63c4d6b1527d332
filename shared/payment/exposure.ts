import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { GasSponsoringPermit } from './authorization.ts'

/** A payer's funds, read at one block. */
export interface PayerFunds {
  readonly balance: AtomicAmount
  /** The part of the balance that Permit2 may transfer. */
  readonly allowance: AtomicAmount
  /** The asset's nonce of the payer's next permit: one with this nonce can be submitted. */
  readonly permitNonce: bigint
  readonly blockNumber: bigint
  /** The requested payment nonces that were used at that block: `balance` no longer includes their charges. */
  readonly usedNonces: ReadonlySet<bigint>
}

/** Input to the decision whether a payer can afford a verified payment in addition to their unfinished work. */
export interface ExposureTerms {
  /** Upper limit on the sum of the payer's open maxima, whatever their balance. */
  readonly maximumOpen: AtomicAmount
  /** Whether the payment relies on a permit of exactly its maximum instead of the allowance. */
  readonly needsPermit: boolean
  /** Time since the payment's verification began: charges settled since may have spent the funds that it saw. */
  readonly verifiedMsAgo: number
  /** `null` until they are needed, which is when the payer has other unfinished work. */
  readonly funds: PayerFunds | null
  /** What a payer may have open who has settled nothing: the highest price of one call. */
  readonly highestPrice: AtomicAmount
}
/** What of a lasting permit decides how much it allows. */
type SharedPermit = Pick<GasSponsoringPermit, 'amount' | 'nonce'>

/** A payment of work in progress. `amount` is its signed maximum, or its charge once that is fixed. */
export interface OpenPayment {
  readonly nonce: bigint
  readonly amount: AtomicAmount
  /** Whether the payment's allowance comes from a permit of exactly its maximum, which is submitted with it. */
  readonly byPermit: boolean
  /** The lasting permit that the payment brings, which allows its amount for it and others together; `null` without one. */
  readonly lasting: SharedPermit | null
  /** Whether the payment's transaction may already be on chain. */
  readonly isSettling: boolean
}

/** A payer's open payments and recent charges, without the payment being checked. */
export interface Exposure {
  readonly open: readonly OpenPayment[]
  /** Charges settled since the payer's funds were read. */
  readonly settledSince: AtomicAmount
}

/** The most readings of a payer's funds for one payment. */
export const MAXIMUM_READINGS = 6

/**
 * Returns whether another reading of the payer's funds may show more than the last one, which asked for the nonces in
 * `asked`; `null` before the first. A settlement that has begun since may be in that balance and in the exposure.
 */
export function isWorthReading(settling: readonly bigint[], asked: readonly bigint[] | null): boolean {
  return asked === null || settling.some((nonce) => !asked.includes(nonce))
}

/** Returns the nonces that a reading of the funds must check: their payments may already be on chain. */
export function settlingNonces({ open }: Exposure): readonly bigint[] {
  return open.filter(({ isSettling }) => isSettling).map(({ nonce }) => nonce)
}

/** Returns the sum that `exposure` will still take from the payer's balance. */
export function openTotal({ open, settledSince }: Exposure, funds: PayerFunds | null): AtomicAmount {
  const unused = open.filter(({ nonce }) => !funds?.usedNonces.has(nonce))
  return atomicAmount(unused.reduce((sum, { amount }) => sum + amount, settledSince as bigint))
}

/** A payment that is to be covered in addition to open ones. */
export interface CoveredPayment {
  readonly maximum: AtomicAmount
  /** Whether it relies on a permit of exactly its maximum. */
  readonly needsPermit: boolean
  /** The lasting permit that it brings, whose signature was verified. */
  readonly lasting: SharedPermit | null
}

/**
 * Returns whether the payer's funds cover a payment in addition to everything open: Σ open maxima ≤ min(balance,
 * allowance). A lasting permit that can still be submitted counts as the allowance. Without a reading of the funds a
 * payment fits only when nothing else is open: its own verification has proved that much.
 */
export function fitsFunds(payment: CoveredPayment, exposure: Exposure, funds: PayerFunds | null): boolean {
  if (!funds) return exposure.open.length === 0 && exposure.settledSince === 0n
  const fitsBalance = openTotal(exposure, funds) + payment.maximum <= funds.balance
  if (payment.needsPermit) return fitsBalance
  const plain = { ...exposure, open: exposure.open.filter(({ byPermit }) => !byPermit) }
  const allowed = openTotal(plain, funds) + payment.maximum
  return fitsBalance && (allowed <= funds.allowance || allowed <= permitted(payment, exposure, funds))
}

/**
 * Returns what the payment's lasting permit allows while it can still be submitted. Of several with one nonce any may come
 * first, so the lowest counts.
 */
function permitted({ lasting }: CoveredPayment, { open }: Exposure, { permitNonce }: PayerFunds): bigint {
  if (lasting?.nonce !== permitNonce) return 0n
  return open.reduce(
    (least, other) => (other.lasting !== null && other.lasting.amount < least ? other.lasting.amount : least),
    lasting.amount,
  )
}

/**
 * Returns whether a payment that fits must not be settled before one of `exposure`: that one could not submit a permit
 * itself, and the allowance does not suffice for all. A lasting permit is submitted only once the allowance is too low for a
 * payment that brings it, and until then each of these takes from what the other one relies on.
 */
export function mustFollow(payment: CoveredPayment, exposure: Exposure, funds: PayerFunds | null): boolean {
  if (payment.lasting === null || fitsFunds({ ...payment, lasting: null }, exposure, funds)) return false
  return exposure.open.some(
    ({ nonce, byPermit, lasting }) =>
      !byPermit && !funds?.usedNonces.has(nonce) && (lasting === null || lasting.nonce !== funds?.permitNonce),
  )
}

/**
 * Returns whether a payment by a permit of its own maximum and one without would be open together. Such a permit replaces
 * the allowance that the other payment relies on, so the second settlement could fail. A lasting one does not
 * replace it while it suffices; see `mustFollow`.
 */
export function mixesPermits(needsPermit: boolean, { open }: Exposure): boolean {
  return open.some(({ byPermit }) => byPermit !== needsPermit)
}
