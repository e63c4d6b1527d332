import type { PaymentRecord, SettlementRecord } from '#shared/operators/payment-record.ts'
import type { Tone } from './timeline.ts'

/** What is known about the money of a call, in a sentence. */
export interface Verdict {
  readonly tone: Tone
  readonly sentence: string
}

/** Returns what is known about the money of a call: first its own charge, then what it was charged besides. */
export function verdictOf(payment: PaymentRecord): readonly Verdict[] {
  return [
    chargeOf(payment),
    ...payment.settlements
      .filter(({ state }) => state === 'surplus')
      .map((): Verdict => ({
        tone: 'bad',
        sentence: 'A settlement that had failed succeeded after all: the payer was charged too much.',
      })),
    ...payment.unknownSettlements.map(({ resolvedAt }): Verdict =>
      resolvedAt === null
        ? { tone: 'bad', sentence: 'The chain shows a settlement of this payment that the ledger does not have.' }
        : { tone: 'neutral', sentence: 'A settlement that the ledger did not have was ended by an operator.' },
    ),
  ]
}

function chargeOf({ state, settlements, resolutions, isOwed }: PaymentRecord): Verdict {
  switch (state) {
    case 'accepted':
    case 'generating':
      return { tone: 'neutral', sentence: 'Nothing is charged yet; at most the authorized maximum will be.' }
    case 'generated':
      return { tone: 'neutral', sentence: 'The charge is fixed, and no transaction has been signed for it yet.' }
    case 'settling':
      return { tone: 'neutral', sentence: 'The charge is fixed, and a transaction may be on its way.' }
    case 'completed':
      return completed(settlements)
    case 'failed':
      return { tone: 'good', sentence: 'Nothing was charged, and nothing will be.' }
    case 'settlement_failed':
      return withheld({ isOwed, resolutions })
    case 'review':
      return resolutions.some(({ item }) => item === 'review')
        ? { tone: 'neutral', sentence: 'The evidence was not enough to decide; an operator ended it.' }
        : { tone: 'bad', sentence: 'It is not known whether the payer was charged. A person decides.' }
  }
}

function completed(settlements: readonly SettlementRecord[]): Verdict {
  const settled = settlements.find(({ state }) => state === 'confirmed' || state === 'lost')
  if (!settled) return { tone: 'good', sentence: 'The charge is zero; nothing had to be settled.' }
  if (settled.state === 'lost')
    return { tone: 'bad', sentence: 'The result was released, and a reorganization removed its charge from the chain.' }
  if (settled.finalizedAt === null)
    return { tone: 'good', sentence: 'Charged on chain, in a block that is confirmed and not final yet.' }
  return { tone: 'good', sentence: 'Charged on chain, in a block that is final.' }
}

function withheld({ isOwed, resolutions }: Pick<PaymentRecord, 'isOwed' | 'resolutions'>): Verdict {
  const isWrittenOff = resolutions.some(({ item }) => item === 'debt')
  if (isOwed && isWrittenOff)
    return { tone: 'warning', sentence: 'Written off. The payer still owes it, and is refused until they pay.' }
  if (isOwed)
    return {
      tone: 'warning',
      sentence: 'Not charged: the result is withheld, and the payer is refused until they pay.',
    }
  return { tone: 'neutral', sentence: 'Not charged: the result is withheld and nothing is owed.' }
}
