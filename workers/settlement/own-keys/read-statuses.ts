import type { StoredTransaction } from '#shared/jobs/job.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation, GasSpent, Settler } from '#shared/payment/facilitator.ts'

/** One transaction of a settlement and its state on chain. */
export interface TransactionStatus {
  readonly transaction: StoredTransaction
  readonly confirmation: Confirmation
}

/** Reads the state of each transaction of a settlement. */
export async function readStatuses(
  settler: Settler,
  transactions: readonly StoredTransaction[],
  authorization: Authorization,
  chargeAmount: AtomicAmount,
): Promise<readonly TransactionStatus[]> {
  const statuses: TransactionStatus[] = []
  for (const transaction of transactions)
    statuses.push({ transaction, confirmation: await settler.confirm(transaction.hash, authorization, chargeAmount) })
  return statuses
}

/** Returns the settlement keys whose account nonces decide whether these can still be mined. */
export function sendersOf(
  transactions: readonly { readonly sender: `0x${string}` | null }[],
): readonly `0x${string}`[] {
  return [...new Set(transactions.flatMap(({ sender }) => sender ?? []))]
}

/** Returns what transactions cost together in which the payment itself failed; `null` when there are none. */
export function gasOfReverts(statuses: readonly TransactionStatus[]): GasSpent | null {
  const spent = statuses.flatMap(({ confirmation }) => (confirmation.outcome === 'reverted' ? [confirmation.gas] : []))
  if (spent.length === 0) return null
  return spent.reduce((sum, { gasUsed, effectiveGasPrice, cost }) => ({
    gasUsed: sum.gasUsed + gasUsed,
    effectiveGasPrice: sum.effectiveGasPrice > effectiveGasPrice ? sum.effectiveGasPrice : effectiveGasPrice,
    cost: atomicAmount(sum.cost + cost),
  }))
}

/** Stores what batches cost that reverted as a whole, which is the fault of none of their payments. */
export async function recordRevertedBatches(
  settlementStore: SettlementStore,
  statuses: readonly TransactionStatus[],
): Promise<void> {
  for (const { transaction, confirmation } of statuses)
    if (confirmation.outcome === 'batch_reverted')
      await settlementStore.recordRevertedBatch(transaction.hash, confirmation.gas)
}
