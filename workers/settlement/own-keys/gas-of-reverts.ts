import type { SettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { TransactionStatus } from './read-statuses.ts'

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
  settlementStore: Pick<SettlementStore, 'recordRevertedBatch'>,
  statuses: readonly TransactionStatus[],
): Promise<void> {
  for (const { transaction, confirmation } of statuses)
    if (confirmation.outcome === 'batch_reverted')
      await settlementStore.recordRevertedBatch(transaction.hash, confirmation.gas)
}
