import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/**
 * The priced maximum for one effective request under one catalog version. `terms` are the operation's unit prices and
 * bounds as they were published when the quote was made; the charge is computed from them, whatever the catalog says later.
 */
export interface Quote<Terms> {
  readonly quotedMaximum: AtomicAmount
  readonly catalogVersion: string
  readonly terms: Terms
}
