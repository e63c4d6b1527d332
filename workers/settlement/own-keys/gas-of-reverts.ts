import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import type { TransactionStatus } from './read-statuses.ts'

/** Returns what the reverted transactions of a settlement cost together; `null` when none reverted. */
export function gasOfReverts(statuses: readonly TransactionStatus[]): GasSpent | null {
  const spent = statuses.flatMap(({ confirmation }) => (confirmation.outcome === 'reverted' ? [confirmation.gas] : []))
  if (spent.length === 0) return null
  return spent.reduce((sum, { gasUsed, effectiveGasPrice, cost }) => ({
    gasUsed: sum.gasUsed + gasUsed,
    effectiveGasPrice: sum.effectiveGasPrice > effectiveGasPrice ? sum.effectiveGasPrice : effectiveGasPrice,
    cost: atomicAmount(sum.cost + cost),
  }))
}
