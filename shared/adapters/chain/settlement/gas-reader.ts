import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import type { Gas, GasReader } from '#shared/payment/gas-reader.ts'
import { EXPECTED_SETTLE_WITH_PERMIT_GAS, SETTLE_WITH_PERMIT_GAS } from '../verification/settlement-call.ts'
import type { FeeEstimator } from './fee-estimator.ts'

const CACHE_MS = 30_000
/** Short, so work resumes soon after an operator funds an empty account. */
const CACHE_WHEN_EMPTY_MS = 2000

/**
 * Reads gas with one `eth_getBalance` and the fee estimate that settlements use. The rollup's data fee is not included.
 */
export function createGasReader(client: PublicClient, estimateFees: FeeEstimator): GasReader {
  const cached = new Map<string, { readonly gas: Gas; readonly until: number }>()
  return {
    readGas: async (facilitator) => {
      const last = cached.get(facilitator)
      if (last && performance.now() < last.until) return last.gas
      try {
        const [balanceWei, { maxFeePerGas, maxPriorityFeePerGas, baseFeePerGas, isLimited }] = await Promise.all([
          client.getBalance({ address: facilitator }),
          estimateFees(),
        ])
        const settlementsLeft =
          maxFeePerGas < baseFeePerGas ? 0 : Number(balanceWei / (SETTLE_WITH_PERMIT_GAS * maxFeePerGas))
        const gas: Gas = {
          balanceWei,
          settlementsLeft,
          expectedSettlementWei: EXPECTED_SETTLE_WITH_PERMIT_GAS * (baseFeePerGas + maxPriorityFeePerGas),
          isFeeLimited: isLimited,
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
