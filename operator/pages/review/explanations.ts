import type { ResolutionOutcome } from '#shared/jobs/resolution.ts'
import type { ItemRecord } from '#shared/operators/item.ts'

const STATES = {
  review: 'The evidence about this payment is not enough to decide whether it was charged.',
  unproven: 'A transaction may have charged the payer; nothing proves that it did or did not.',
  lost: 'The result was released, and a reorganization removed its charge from the chain.',
  surplus: 'A settlement that had failed succeeded after all: the payer was charged too much.',
  unknown: 'The chain shows that this payment was settled, and the ledger has no settlement of it.',
  owed: 'The work is done and its charge could not be settled. The payer is refused until they pay.',
} as const satisfies Record<ItemRecord['state'], string>

/** Explains to an operator why an item needs them. */
export function explainItem({ state }: Pick<ItemRecord, 'state'>): string {
  return STATES[state]
}

/** What outcomes are called in the console. */
export const OUTCOME_LABELS = {
  paid_outside: 'paid outside',
  refunded: 'refunded',
  written_off: 'written off',
  forgiven: 'forgiven',
  re_served: 'result served',
} as const satisfies Record<ResolutionOutcome, string>

/** Says what an outcome means for the payer and the service. */
export function explainOutcome({ kind }: Pick<ItemRecord, 'kind'>, outcome: ResolutionOutcome): string {
  if (kind === 'debt') return DEBT_OUTCOMES[outcome]
  return kind === 'settlement' && outcome === 'written_off'
    ? 'The service bears the amount; the payer keeps the result.'
    : OUTCOMES[outcome]
}

const OUTCOMES = {
  refunded: 'A final transfer on chain returned the amount. The caller’s next request names its transaction.',
  paid_outside: 'You and the payer settled the amount by other means.',
  written_off: 'The service bears the amount. Nothing is sent to the payer.',
  re_served: 'The caller’s next request gets the stored result, without a charge.',
  forgiven: 'The amount need not be paid.',
} as const satisfies Record<ResolutionOutcome, string>

const DEBT_OUTCOMES = {
  ...OUTCOMES,
  paid_outside: 'The payer paid by other means, and may buy again.',
  forgiven: 'The amount need not be paid, and the payer may buy again.',
  written_off: 'It leaves this list. The payer still owes it, and is refused until they pay.',
} as const satisfies Record<ResolutionOutcome, string>
