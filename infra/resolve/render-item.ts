import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { allowedOutcomes, type ItemRecord } from '#shared/operators/item.ts'
import { conflictSentence } from '#shared/operators/resolve-item.ts'
import { oneLine } from '../command-line.ts'

/** Renders an item as a few lines of text. */
export function renderItem(item: ItemRecord): string {
  const allowed = allowedOutcomes(item)
  const facts: readonly (readonly [string, string | null])[] = [
    ['state', item.state],
    ['since', item.since.toISOString()],
    ['amount', `${dollarsFromAtomic(atomicAmount(item.amount))} USDC`],
    ['payer', item.payer],
    ['transaction', item.transaction],
    ['job', item.jobId],
    ['request', item.requestId],
    ['why', item.reason === null ? null : oneLine(item.reason)],
    ['result', item.kind === 'review' ? (item.isResultStored ? 'stored' : 'not stored') : null],
    ['ended', item.resolution && oneLine(conflictSentence(item.resolution))],
    ['may be', allowed.length === 0 ? null : allowed.join(', ')],
  ]
  return [
    item.id,
    ...facts.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(11)}  ${value}`])),
  ].join('\n')
}

/** Returns an item with its allowed outcomes, for JSON. */
export function itemJson(item: ItemRecord) {
  return { ...item, allowedOutcomes: allowedOutcomes(item) }
}
