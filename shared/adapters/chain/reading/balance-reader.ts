import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { BalanceReader } from '#shared/payment/balance-reader.ts'
import { USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'

/** Reads USDC balances: one `balanceOf` call each. */
export function createBalanceReader(client: PublicClient): BalanceReader {
  return {
    readBalance: async (address) => {
      // viem rejects mixed-case addresses with a wrong checksum, which the API accepts.
      const owner = address.toLowerCase() as `0x${string}`
      try {
        const call = { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [owner] } as const
        return atomicAmount(await client.readContract(call))
      } catch (cause) {
        const message = 'The balance lookup is temporarily unavailable. Retry shortly.'
        throw new AppError('payment_network_unavailable', { message, cause })
      }
    },
  }
}
