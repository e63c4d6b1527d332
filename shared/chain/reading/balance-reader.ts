import type { PublicClient } from 'viem'
import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { MULTICALL3_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { shareCalls } from '../network/share-calls.ts'

/** Reads balances on the payment network, without the wallet's involvement. */
export interface BalanceReader {
  /** Returns atomic USDC. Throws `payment_network_unavailable` when the network does not answer. */
  readBalance(address: `0x${string}`): Promise<AtomicAmount>
}

/** A balance costs a few thousand gas and a hundred bytes. */
const SHARING = { maximum: () => 100, longestWaitMs: 20, callsAtOnce: 4 }

/** Reads USDC balances. Those that are asked for at the same time share one RPC call. */
export function createBalanceReader(client: PublicClient): BalanceReader {
  const read = shareCalls<`0x${string}`, bigint>((owners) => readBalances(client, owners), SHARING)
  return {
    readBalance: async (address) => {
      try {
        // viem rejects mixed-case addresses with a wrong checksum, which the API accepts.
        return atomicAmount(await read(address.toLowerCase() as `0x${string}`))
      } catch (cause) {
        const message = 'The balance lookup is temporarily unavailable. Retry shortly.'
        throw new AppError('payment_network_unavailable', { message, cause })
      }
    },
  }
}

async function readBalances(client: PublicClient, owners: readonly `0x${string}`[]): Promise<readonly bigint[]> {
  const calls = owners.map(
    (owner) => ({ address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [owner] }) as const,
  )
  const [only, ...others] = calls
  if (only && others.length === 0) return [await client.readContract(only)]
  return await client.multicall({
    allowFailure: false,
    batchSize: 0,
    multicallAddress: MULTICALL3_ADDRESS,
    contracts: calls,
  })
}
