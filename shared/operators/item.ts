import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { ResolutionOutcome, ResolvableItem } from '#shared/jobs/resolution.ts'
import type { RefundTransfer } from '#shared/payment/refund.ts'
import type { ResolutionRecord } from './payment-record.ts'

/** Names an item: of reviews and debts the job, of settlements their own id, of unknown ones the payment. */
export type ItemName =
  | { readonly kind: 'review' | 'debt' | 'settlement'; readonly id: string }
  | { readonly kind: 'unknown_settlement'; readonly network: string; readonly payer: string; readonly nonce: bigint }

/** Something that the service cannot end by itself, with what is known about its money. */
export interface ItemRecord {
  /** Such as `review:0b7e…`; `parseItemName` reads it. */
  readonly id: string
  readonly kind: ResolvableItem
  readonly state: 'review' | 'unproven' | 'lost' | 'surplus' | 'unknown' | 'owed'
  readonly jobId: string | null
  readonly settlementId: string | null
  readonly requestId: string | null
  readonly network: string
  readonly payer: string
  /** The account that the payment is for, in lower case. */
  readonly payTo: string
  /** The Permit2 nonce of the payment in question. */
  readonly nonce: bigint
  /** The amount in question in atomic USDC: what was charged, or at most may have been. */
  readonly amount: bigint
  /** The newest transaction that may have charged it. */
  readonly transaction: string | null
  /** The block of the payment, where it is known. */
  readonly blockNumber: bigint | null
  /** When the payment was accepted, where it is known; it was not settled before. */
  readonly paidAfter: Date | null
  readonly reason: string | null
  readonly since: Date
  /** Whether the result can still be returned to its caller, with its media. */
  readonly isResultStored: boolean
  readonly isOwed: boolean
  /** How it was ended; the newest of a debt that was written off before. `null` while it is open. */
  readonly resolution: ResolutionRecord | null
}

/** What an operator decides about an item. */
export interface Resolution {
  readonly outcome: ResolutionOutcome
  readonly reason: string
  /** Proven transfers of the amount, of which the first one that refunds nothing else is recorded; only of refunds. */
  readonly refund: { readonly network: string; readonly transfers: readonly RefundTransfer[] } | null
  /** The `versionOf` the item that the operator confirmed this for; it must not have changed since. */
  readonly confirmed?: string | undefined
}

export type StoredResolution =
  | { readonly outcome: 'resolved'; readonly resolution: ResolutionRecord }
  /** Another operator was faster. */
  | { readonly outcome: 'conflict'; readonly resolution: ResolutionRecord }
  | { readonly outcome: 'not_found' }
  /** The item changed, for example because its payer paid; it has these outcomes now. */
  | { readonly outcome: 'not_allowed'; readonly allowed: readonly ResolutionOutcome[] }
  /** It is not as it was confirmed any more. */
  | { readonly outcome: 'changed' }
  /** Each transfer refunds another item already. */
  | { readonly outcome: 'refund_used'; readonly itemIds: readonly string[] }

/** Returns what tells an item from the same one after a change of anything that is known about it. */
export function versionOf(item: ItemRecord): string {
  return sha256Hex(JSON.stringify(item, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value)))
}

/** Returns the outcomes that an item may have now; none for one that is ended. */
export function allowedOutcomes(
  item: Pick<ItemRecord, 'kind' | 'state' | 'isOwed' | 'isResultStored' | 'resolution'>,
): readonly ResolutionOutcome[] {
  if (item.kind === 'debt') {
    if (!item.isOwed) return []
    return item.resolution === null ? ['paid_outside', 'forgiven', 'written_off'] : ['paid_outside', 'forgiven']
  }
  if (item.resolution !== null) return []
  switch (item.kind) {
    case 'review':
      return ['refunded', 'paid_outside', 'written_off', ...(item.isResultStored ? (['re_served'] as const) : [])]
    case 'settlement':
      return item.state === 'surplus' ? ['refunded', 'paid_outside'] : ['paid_outside', 'written_off']
    case 'unknown_settlement':
      return ['refunded', 'paid_outside', 'written_off']
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const UNKNOWN_SETTLEMENT = /^(?<network>[a-z0-9]{3,8}:[-\w]{1,32}):(?<payer>0x[0-9a-f]{40}):(?<nonce>\d{1,78})$/i

/** Reads the id of an item, such as `review:0b7e…`; `null` for anything else. */
export function parseItemName(text: string): ItemName | null {
  const [kind = ''] = text.split(':', 1)
  const rest = text.slice(kind.length + 1)
  if (kind === 'review' || kind === 'debt' || kind === 'settlement')
    return UUID.test(rest) ? { kind, id: rest.toLowerCase() } : null
  const { network, payer, nonce } = UNKNOWN_SETTLEMENT.exec(rest)?.groups ?? {}
  if (kind !== 'unknown_settlement' || network === undefined || payer === undefined || nonce === undefined) return null
  return { kind, network, payer: payer.toLowerCase(), nonce: BigInt(nonce) }
}

export function formatItemName(name: ItemName): string {
  return name.kind === 'unknown_settlement'
    ? `${name.kind}:${name.network}:${name.payer}:${name.nonce}`
    : `${name.kind}:${name.id}`
}
