import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/**
 * The proven maximum price of one effective request under one catalog version. `terms` are the operation's unit prices
 * and bounds at the time of the quote; the charge is computed from them even when the catalog changes later.
 */
export interface Quote<Terms> {
  readonly quotedMaximum: AtomicAmount
  readonly catalogVersion: string
  readonly terms: Terms
}
