/** What may be resolved: each has its own kind of evidence. */
export const RESOLVABLE_ITEMS = ['review', 'settlement', 'unknown_settlement', 'debt'] as const

export type ResolvableItem = (typeof RESOLVABLE_ITEMS)[number]

/**
 * How a person ended an item.
 *
 * - `paid_outside`: the parties settled the amount by other means.
 * - `refunded`: a final transfer on chain returned the amount.
 * - `written_off`: the operator bears the amount; a debt still has to be paid before the payer buys again.
 * - `forgiven`: a debt need not be paid.
 * - `re_served`: the stored result is returned to its caller without a charge.
 */
export const RESOLUTION_OUTCOMES = ['paid_outside', 'refunded', 'written_off', 'forgiven', 're_served'] as const

export type ResolutionOutcome = (typeof RESOLUTION_OUTCOMES)[number]
