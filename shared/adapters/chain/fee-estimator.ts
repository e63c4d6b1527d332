import type { PublicClient } from 'viem'

/** What a transaction offers for gas, in wei. */
export interface Fees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
  /** What the next block burns; a transaction whose `maxFeePerGas` is lower cannot be in it. */
  readonly baseFeePerGas: bigint
}

export type FeeEstimator = () => Promise<Fees>

/** Blocks come every 2 seconds; between them the answer is the same. */
const KEPT_MS = 2000
const BLOCKS_LOOKED_AT = 5
/** A quiet chain reports tips of zero, which some block builders leave out. 0.001 gwei, the usual tip on Base. */
const LOWEST_TIP_WEI = 1_000_000n

/**
 * Estimates fees with one call (`eth_feeHistory`), kept for two seconds and shared by whoever asks meanwhile. The base fee is
 * offered twice over: it rises by at most an eighth per block, so that a transaction stays includable for six full blocks.
 * Throws what the RPC client throws.
 */
export function createFeeEstimator(client: PublicClient, maximumFeePerGasWei: bigint | null = null): FeeEstimator {
  let kept: { readonly fees: Promise<Fees>; readonly until: number } | null = null
  return async () => {
    if (kept && performance.now() < kept.until) return await kept.fees
    const reading = { fees: estimate(client, maximumFeePerGasWei), until: performance.now() + KEPT_MS }
    kept = reading
    // A failure is not kept: the next one to ask tries again.
    reading.fees.catch(() => {
      if (kept === reading) kept = null
    })
    return await reading.fees
  }
}

async function estimate(client: PublicClient, maximumFeePerGasWei: bigint | null): Promise<Fees> {
  const history = await client.getFeeHistory({ blockCount: BLOCKS_LOOKED_AT, rewardPercentiles: [50] })
  const baseFeePerGas = history.baseFeePerGas.at(-1)
  if (baseFeePerGas === undefined) throw new Error('the RPC gave no base fee')
  const tips = (history.reward ?? []).map(([median]) => median ?? 0n)
  const tip = tips.reduce((highest, next) => (next > highest ? next : highest), LOWEST_TIP_WEI)
  const maxFeePerGas = atMost(baseFeePerGas * 2n + tip, maximumFeePerGasWei)
  return { baseFeePerGas, maxFeePerGas, maxPriorityFeePerGas: atMost(tip, maxFeePerGas) }
}

function atMost(wei: bigint, limit: bigint | null): bigint {
  return limit !== null && wei > limit ? limit : wei
}
