import type { ChainTransfer, MinedTransaction } from '#shared/chain/reading/transfer-reader.ts'
import type { LedgerSettlement } from '#shared/ledger/reports/ledger-settlements.ts'

export type DifferenceKind =
  | 'missing_on_chain'
  | 'unknown_to_ledger'
  | 'nonce_used_elsewhere'
  | 'unsettled_in_ledger'
  | 'transferred_twice'
  | 'amount_differs'
  | 'payer_differs'
  | 'block_differs'
  | 'ledger_contradicts_itself'
  | 'sums_differ'

/** A disagreement about money between ledger and chain, or between two tables of the ledger. */
export interface Difference {
  readonly kind: DifferenceKind
  readonly jobId: string | null
  readonly transaction: string | null
  readonly detail: string
}

/**
 * Returns what the transfers of one settlement share: its transaction, and of a batch the payment, so that two payments of
 * one payer in it never stand for each other.
 */
export function settlementKey({
  transaction,
  isBatched,
  payer,
  nonce,
}: Pick<LedgerSettlement, 'transaction' | 'isBatched' | 'payer' | 'nonce'>): string {
  return keyOf(transaction, isBatched ? { payer, nonce } : null)
}

/** Returns the key of the settlement that made a transfer. */
export function transferKey({ transaction, payment }: ChainTransfer): string {
  return keyOf(transaction, payment)
}

function keyOf(transaction: string, payment: { readonly payer: string; readonly nonce: bigint } | null): string {
  return payment === null ? transaction : `${transaction} ${payment.payer} ${payment.nonce}`
}

/**
 * Returns the transfers of a settlement among those of its transaction. Where none has its payer, those with its nonce,
 * so that a payer that differs is named.
 */
export function transfersOfSettlement(
  settlement: Pick<LedgerSettlement, 'transaction' | 'isBatched' | 'payer' | 'nonce'>,
  transfers: readonly ChainTransfer[],
): readonly ChainTransfer[] {
  const key = settlementKey(settlement)
  const own = transfers.filter((transfer) => transferKey(transfer) === key)
  if (own.length > 0 || !settlement.isBatched) return own
  return transfers.filter(({ payment }) => payment?.nonce === settlement.nonce)
}

/** Compares a confirmed settlement with its own transfers to our recipients. Amounts are atomic USDC. */
export function compareSettlement(
  { jobId, transaction, blockNumber, chargeAtomic, payer, payTo }: LedgerSettlement,
  transfers: readonly ChainTransfer[],
): readonly Difference[] {
  const difference = (kind: DifferenceKind, detail: string): Difference => ({ kind, jobId, transaction, detail })
  const [transfer, ...more] = transfers.filter(({ to }) => to === payTo)
  if (!transfer)
    return [difference('missing_on_chain', `the ledger contains a charge of ${chargeAtomic} from ${payer}`)]
  const found: Difference[] = []
  if (more.length > 0) found.push(difference('transferred_twice', `${more.length + 1} transfers to ${payTo}`))
  if (transfer.valueAtomic !== chargeAtomic)
    found.push(difference('amount_differs', `ledger ${chargeAtomic}, chain ${transfer.valueAtomic}`))
  if (transfer.from !== payer) found.push(difference('payer_differs', `ledger ${payer}, chain ${transfer.from}`))
  if (transfer.blockNumber !== blockNumber)
    found.push(difference('block_differs', `ledger ${blockNumber}, chain ${transfer.blockNumber}`))
  return found
}

/**
 * Returns whether this service sent a transfer that the ledger lacks: one of its keys called the x402 proxy, or a
 * settlement contract of its own, which only its keys may call. Other unknown transfers are not a difference, since anyone
 * may send USDC to a published address.
 */
export function isSettledByUs(
  { sender, target }: MinedTransaction,
  { facilitators, proxy }: { readonly facilitators: ReadonlySet<string>; readonly proxy: string },
): boolean {
  if (target === null) return false
  return facilitators.has(target) || (target === proxy && facilitators.has(sender))
}
