import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import type { Gas, GasReader } from '#shared/payment/gas-reader.ts'
import type { FeeEstimator } from './fee-estimator.ts'
import { SETTLE_WITH_PERMIT_GAS } from './settlement-call.ts'

const KEPT_MS = 30_000
/** Whoever fills an empty account up wants work to go on at once. */
const KEPT_WHEN_EMPTY_MS = 2000

/** One `eth_getBalance` for each reading, and the fee estimate that settlements use. What rollups charge for data is not in it. */
export function createGasReader(client: PublicClient, estimateFees: FeeEstimator): GasReader {
  const kept = new Map<string, { readonly gas: Gas; readonly until: number }>()
  return {
    readGas: async (facilitator) => {
      const last = kept.get(facilitator)
      if (last && performance.now() < last.until) return last.gas
      try {
        const [balanceWei, { maxFeePerGas }] = await Promise.all([
          client.getBalance({ address: facilitator }),
          estimateFees(),
        ])
        const settlementsLeft = Number(balanceWei / (SETTLE_WITH_PERMIT_GAS * maxFeePerGas))
        const gas = { balanceWei, settlementsLeft }
        kept.set(facilitator, { gas, until: performance.now() + (settlementsLeft > 0 ? KEPT_MS : KEPT_WHEN_EMPTY_MS) })
        return gas
      } catch (cause) {
        throw new AppError('payment_network_unavailable', { cause })
      }
    },
  }
}
