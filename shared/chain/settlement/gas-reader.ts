import { BaseError, ContractFunctionZeroDataError, type PublicClient, parseAbi } from 'viem'
import { CHARGE_GAS } from '#shared/catalog/fee-limit.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import { keptFor } from '#shared/runtime/kept-for.ts'
import { EXPECTED_SETTLE_WITH_PERMIT_GAS, SETTLE_WITH_PERMIT_GAS } from '../verification/settlement-call.ts'
import { exceedMaximum, type FeeEstimator } from './fee-estimator.ts'

/** The gas balance of a settlement key, and what settlements cost it. */
export interface Gas {
  readonly balanceWei: bigint
  /**
   * Number of the most expensive settlements that the key's balance pays for at the current fee. 0 while the base fee
   * exceeds the operator's maximum, since no settlement can then be mined.
   */
  readonly settlementsLeft: number
  /** Expected cost of one settlement by permit at the current fee, the rollup's data fee included. */
  readonly expectedSettlementWei: bigint
  /** Whether the fees exceed the operator's maximum, so that calls are refused. */
  readonly isFeeLimited: boolean
}

/** Reads gas balances by address, without any key. */
export interface GasReader {
  /**
   * Returns a reading at most 30 seconds old, or 2 when no settlement is left. Throws `payment_network_unavailable`.
   */
  readGas(facilitator: `0x${string}`): Promise<Gas>
}

const CACHE_MS = 30_000
/** Short, so work resumes soon after an operator funds an empty account. */
const CACHE_WHEN_EMPTY_MS = 2000
const CACHE_OF_QUOTES_MS = 2000

/**
 * Reads gas with one `eth_getBalance`, the fee estimate that settlements use and the rollup's own estimate of its data fee.
 */
export function createGasReader(client: PublicClient, estimateFees: FeeEstimator): GasReader {
  const cached = new Map<string, { readonly gas: Gas; readonly until: number }>()
  return {
    readGas: async (facilitator) => {
      const last = cached.get(facilitator)
      if (last && performance.now() < last.until) return last.gas
      try {
        const [balanceWei, fees, dataFeeWei] = await Promise.all([
          client.getBalance({ address: facilitator }),
          estimateFees(),
          readDataFee(client),
        ])
        const { maxFeePerGas, maxPriorityFeePerGas, baseFeePerGas } = fees
        const settlementsLeft =
          maxFeePerGas < baseFeePerGas ? 0 : Number(balanceWei / (SETTLE_WITH_PERMIT_GAS * maxFeePerGas))
        const gas: Gas = {
          balanceWei,
          settlementsLeft,
          expectedSettlementWei: EXPECTED_SETTLE_WITH_PERMIT_GAS * (baseFeePerGas + maxPriorityFeePerGas) + dataFeeWei,
          isFeeLimited: exceedMaximum(fees),
        }
        cached.set(facilitator, {
          gas,
          until: performance.now() + (settlementsLeft > 0 ? CACHE_MS : CACHE_WHEN_EMPTY_MS),
        })
        return gas
      } catch (cause) {
        throw new AppError('payment_network_unavailable', { cause })
      }
    },
  }
}

/**
 * Creates a reader of what settling one charge is expected to cost at the current fee, the rollup's data fee included, in
 * atomic USDC, rounded up: alone in its transaction, without a permit. At most two seconds old. Throws
 * `payment_network_unavailable`.
 */
export function createChargeGasReader(
  client: PublicClient,
  estimateFees: FeeEstimator,
  nativeTokenUsd: number,
): () => Promise<AtomicAmount> {
  return keptFor(CACHE_OF_QUOTES_MS, async () => {
    try {
      const [{ baseFeePerGas, maxPriorityFeePerGas }, dataFeeWei] = await Promise.all([
        estimateFees(),
        readDataFee(client),
      ])
      return usdcOfWei(CHARGE_GAS * (baseFeePerGas + maxPriorityFeePerGas) + dataFeeWei, nativeTokenUsd)
    } catch (cause) {
      throw new AppError('payment_network_unavailable', { cause })
    }
  })
}

/** The rollup's predeployed oracle of its data fee (specs.optimism.io, "Predeploys", GasPriceOracle, since Fjord). */
const DATA_FEE_ORACLE = {
  address: '0x420000000000000000000000000000000000000F',
  abi: parseAbi(['function getL1FeeUpperBound(uint256 unsignedTxSize) view returns (uint256)']),
  functionName: 'getL1FeeUpperBound',
} as const
/** An unsigned transaction that settles one payment by permit through the settlement contract, in bytes. */
const SETTLEMENT_BYTES = 1200n

/** Returns the most that a settlement costs beside its gas, in wei; 0 on a chain without such a fee. */
async function readDataFee(client: PublicClient): Promise<bigint> {
  try {
    return await client.readContract({ ...DATA_FEE_ORACLE, args: [SETTLEMENT_BYTES] })
  } catch (error) {
    const hasNoOracle =
      error instanceof BaseError && error.walk((cause) => cause instanceof ContractFunctionZeroDataError)
    if (hasNoOracle) return 0n
    throw error
  }
}
