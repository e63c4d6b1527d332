import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** Kinds of work that ended without a charge. The table's migration says what each costs at most. */
export const UNCHARGED_KINDS = [
  'empty_output',
  'unknown_outcome',
  'lost_call',
  'rejected_request',
  'replaced_result',
  'reverted_settlement',
] as const

export type UnchargedKind = (typeof UNCHARGED_KINDS)[number]

/** The limits of what a payer's calls may cost the service without a charge. */
export interface UnchargedBudget {
  /** The length of the sliding window. */
  readonly windowSeconds: number
  /** A payer's uncharged work within the window stays below this plus what they paid for within it. */
  readonly perPayer: AtomicAmount
  /** The most of a payer's unknown outcomes that does not count because the deployment failed for other payers too. */
  readonly maximumForgiven: AtomicAmount
}

/** A payer's uncharged work, once it has reached the budget. */
export interface ExhaustedBudget {
  /** The payer's uncharged work that counts within the window. */
  readonly used: AtomicAmount
  /** The budget, plus what the payer paid for within the window. */
  readonly allowed: AtomicAmount
  readonly byKind: Readonly<Partial<Record<UnchargedKind, AtomicAmount>>>
  /** Time until enough of the payer's uncharged work has left the window. */
  readonly retryAfterSeconds: number
}
