import type { Journal } from '../../../client/journal/journal.ts'

/** 2026-03-01 at noon UTC. */
export const NOON = Date.parse('2026-03-01T12:00:00Z')
const TEN_MINUTES_MS = 600_000

export interface JournaledCall {
  readonly key: string
  readonly maximum: bigint
  readonly group?: string | undefined
}

/** Returns what the payment path writes after a reservation. */
export function outcomesOf(journal: Journal, clock: { readonly now: number }) {
  return {
    sign: ({ key, maximum }: JournaledCall) => {
      const deadline = new Date(clock.now + TEN_MINUTES_MS).toISOString()
      journal.append({ phase: 'signed', key, maximum: maximum.toString(), deadline, payment: 'payment' })
    },
    answer: ({ key, maximum, group }: JournaledCall, charge: bigint) =>
      journal.append({
        phase: 'answered',
        key,
        charge: charge.toString(),
        transaction: null,
        receiptId: key,
        receiptToken: null,
        maximum: maximum.toString(),
        group,
      }),
    refuse: ({ key }: JournaledCall) =>
      journal.append({ phase: 'refused', key, status: 503, code: 'provider_unavailable' }),
  }
}
