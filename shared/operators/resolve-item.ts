import type { ResolutionOutcome } from '#shared/jobs/resolution.ts'
import { proveRefund } from '#shared/payment/prove-refund.ts'
import type { RefundReader } from '#shared/payment/refund.ts'
import type { Author } from './author.ts'
import { allowedOutcomes, type ItemName, type ItemRecord, type Resolution, type StoredResolution } from './item.ts'
import type { ResolutionRecord } from './payment-record.ts'

/** What an operator decides, as they entered it. */
export interface Decision {
  readonly outcome: ResolutionOutcome
  readonly reason: string
  /** The transaction of the refund; empty unless the outcome is `refunded`. */
  readonly refundTransaction: string
}

/** The longest reason that is kept. */
export const LONGEST_REASON = 1000

export type Resolved =
  | { readonly outcome: 'resolved'; readonly item: ItemRecord; readonly resolution: ResolutionRecord }
  | { readonly outcome: 'not_found' }
  /** `sentence` is for the operator; `field` is what they have to change, if that helps. */
  | {
      readonly outcome: 'refused'
      readonly field: 'outcome' | 'reason' | 'refund_transaction' | null
      readonly sentence: string
    }

/** A decision that the item allows, with what is known about it. */
export interface CheckedDecision {
  readonly outcome: 'possible'
  readonly item: ItemRecord
  readonly resolution: Resolution
}

interface Dependencies {
  readonly store: {
    findItem(name: ItemName): Promise<ItemRecord | null>
    storeResolution(name: ItemName, resolution: Resolution, author: Author): Promise<StoredResolution>
  }
  readonly refunds: RefundReader
}

/** Says whether an item may be ended as an operator decided. A refund is proven on chain. */
export async function checkDecision(
  { store, refunds }: Dependencies,
  name: ItemName,
  { outcome, reason: enteredReason, refundTransaction }: Decision,
): Promise<CheckedDecision | Exclude<Resolved, { outcome: 'resolved' }>> {
  const reason = enteredReason.trim()
  if (reason.length === 0) return refused('reason', 'Enter the reason: it is kept with the resolution.')
  if (reason.length > LONGEST_REASON || reason.includes('\0'))
    return refused('reason', `A reason is text of at most ${LONGEST_REASON} characters.`)
  if (outcome !== 'refunded' && refundTransaction.trim() !== '')
    return refused('refund_transaction', 'Only the outcome refunded has a transaction.')
  const item = await store.findItem(name)
  if (!item) return { outcome: 'not_found' }
  const allowed = allowedOutcomes(item)
  if (!allowed.includes(outcome)) return notAllowed(item, allowed, outcome)
  const proof = outcome === 'refunded' ? await proveRefund(refunds, refundTransaction, item) : null
  if (proof?.outcome === 'refused') return refused('refund_transaction', proof.sentence)
  const refund = proof && { network: item.network, transfers: proof.transfers }
  return { outcome: 'possible', item, resolution: { outcome, reason, refund } }
}

/**
 * Ends an item as an operator decided, and as they confirmed it where a version of it is given. Of two operators, the
 * second is refused with who was first, when and how.
 */
export async function resolveItem(
  dependencies: Dependencies,
  name: ItemName,
  decision: Decision,
  author: Author,
  confirmed?: string,
): Promise<Resolved> {
  const checked = await checkDecision(dependencies, name, decision)
  if (checked.outcome !== 'possible') return checked
  const { item, resolution } = checked
  const stored = await dependencies.store.storeResolution(name, { ...resolution, confirmed }, author)
  switch (stored.outcome) {
    case 'resolved':
      return { ...stored, item: { ...item, resolution: stored.resolution } }
    case 'not_found':
      return stored
    case 'conflict':
      return refused(null, conflictSentence(stored.resolution))
    case 'not_allowed':
      return notAllowed(item, stored.allowed, resolution.outcome)
    case 'changed':
      return refused(null, 'This item changed after you looked, and was not ended. It is shown as it is now.')
    case 'refund_used':
      return refused('refund_transaction', `This transfer refunds another item already: ${stored.itemIds.join(', ')}.`)
  }
}

function notAllowed(
  item: ItemRecord,
  allowed: readonly ResolutionOutcome[],
  outcome: ResolutionOutcome,
): Extract<Resolved, { outcome: 'refused' }> {
  if (allowed.length > 0)
    return refused('outcome', `This item cannot be ${said(outcome)}; it may be ${allowed.map(said).join(', ')}.`)
  return refused(null, item.resolution ? conflictSentence(item.resolution) : 'This item is no longer open.')
}

/** Names who ended an item, when and how. */
export function conflictSentence({
  operator,
  outcome,
  resolvedAt,
  refundTransaction,
  reason,
}: ResolutionRecord): string {
  const refund = refundTransaction === null ? '' : ` in ${refundTransaction}`
  return `${operator} ended this item at ${resolvedAt.toISOString()}: ${said(outcome)}${refund} (${reason}).`
}

function said(outcome: ResolutionOutcome): string {
  return outcome.replaceAll('_', ' ')
}

function refused(
  field: Extract<Resolved, { outcome: 'refused' }>['field'],
  sentence: string,
): Extract<Resolved, { outcome: 'refused' }> {
  return { outcome: 'refused', field, sentence }
}
