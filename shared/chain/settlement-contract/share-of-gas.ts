import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'

/**
 * Returns the part of a batch's gas that falls on some of its payments, by weight; on all equally where no weight is
 * known. The parts of all payments add up to the whole exactly: each is rounded to where the next one begins.
 */
export function shareOfGas(
  { gasUsed, effectiveGasPrice, cost }: GasSpent,
  weights: readonly bigint[],
  isIncluded: readonly boolean[],
): GasSpent {
  const sum = weights.reduce((one, other) => one + other, 0n)
  const known = sum > 0n ? weights : weights.map(() => 1n)
  const total = sum > 0n ? sum : BigInt(weights.length)
  const share = { gasUsed: 0n, cost: 0n }
  let end = 0n
  for (const [position, weight] of known.entries()) {
    const start = end
    end += weight
    if (!isIncluded[position]) continue
    share.gasUsed += (gasUsed * end) / total - (gasUsed * start) / total
    share.cost += (cost * end) / total - (cost * start) / total
  }
  return { gasUsed: share.gasUsed, effectiveGasPrice, cost: atomicAmount(share.cost) }
}
