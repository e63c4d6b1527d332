import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import { keptFor } from '#shared/runtime/kept-for.ts'

/** The gas fees of a transaction, in wei. */
export interface Fees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
  /** Base fee of the next block. A transaction with a lower `maxFeePerGas` cannot be included in it. */
  readonly baseFeePerGas: bigint
}

export type FeeEstimator = () => Promise<Fees>

/** Base's block time: fees do not change between blocks. */
const CACHE_MS = 2000
const HISTORY_BLOCKS = 5
/** 0.001 gwei, the usual tip on Base. An idle chain reports tips of zero, which some block builders do not include. */
const MINIMUM_TIP_WEI = 1_000_000n
/**
 * Tips of blocks with more room than this count for nothing: a higher one buys nothing there, and on a quiet chain the
 * median is what we paid ourselves, so a single high tip would be repeated for good. op-geth suggests its minimum for them
 * as well (`eth/gasprice/optimism-gasprice.go`, SuggestOptimismPriorityFee, commit 944b718c, read on 2026-11-26).
 */
const FULL_BLOCK = 0.8

/**
 * Creates a fee estimator: one call (`eth_feeHistory`), cached for two seconds and shared by concurrent callers. The tip is
 * the highest median of the recent blocks that were full. The fee cap is twice the base fee, which rises by at most an eighth per block, so a transaction stays includable for six
 * full blocks. Rejects with the RPC client's errors.
 */
export function createFeeEstimator(client: PublicClient, maximumFeePerGasWei: bigint | null = null): FeeEstimator {
  return keptFor(CACHE_MS, () => estimate(client, maximumFeePerGasWei))
}

/**
 * Returns whether a settlement may not be mined at the operator's maximum: the base fee exceeds it with room for a rise by a
 * quarter, some six of Base's full blocks. A cap that is merely lower than estimated, as the default is at Base's lowest base
 * fee, limits nothing.
 */
export function exceedMaximum({ baseFeePerGas, maxFeePerGas }: Pick<Fees, 'baseFeePerGas' | 'maxFeePerGas'>): boolean {
  return (baseFeePerGas * 5n) / 4n > maxFeePerGas
}

/** Throws `payment_network_fees_high` when the fees exceed the operator's maximum, and `payment_network_unavailable`. */
export async function requireFeesWithinMaximum(estimateFees: FeeEstimator): Promise<void> {
  let fees: Fees
  try {
    fees = await estimateFees()
  } catch (cause) {
    throw new AppError('payment_network_unavailable', { cause })
  }
  if (exceedMaximum(fees)) throw new AppError('payment_network_fees_high')
}

async function estimate(client: PublicClient, maximumFeePerGasWei: bigint | null): Promise<Fees> {
  const history = await client.getFeeHistory({ blockCount: HISTORY_BLOCKS, rewardPercentiles: [50] })
  const baseFeePerGas = history.baseFeePerGas.at(-1)
  if (baseFeePerGas === undefined) throw new Error('the RPC returned no base fee')
  const tips = (history.reward ?? []).map(([median = 0n], block) =>
    (history.gasUsedRatio[block] ?? 0) >= FULL_BLOCK ? median : 0n,
  )
  const tip = tips.reduce((highest, next) => (next > highest ? next : highest), MINIMUM_TIP_WEI)
  const maxFeePerGas = atMost(baseFeePerGas * 2n + tip, maximumFeePerGasWei)
  return { baseFeePerGas, maxFeePerGas, maxPriorityFeePerGas: atMost(tip, maxFeePerGas) }
}

function atMost(wei: bigint, limit: bigint | null): bigint {
  return limit !== null && wei > limit ? limit : wei
}
