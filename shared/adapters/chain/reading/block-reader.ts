import { BlockNotFoundError, type PublicClient } from 'viem'
import type { BlockReader } from '#shared/payment/block-reader.ts'

/** Reads block numbers and hashes: one RPC call each. */
export function createBlockReader(client: PublicClient): BlockReader {
  return {
    readFinalizedNumber: async () => (await client.getBlock({ blockTag: 'finalized' })).number,
    readHash: async (blockNumber) => {
      try {
        return (await client.getBlock({ blockNumber })).hash
      } catch (error) {
        if (error instanceof BlockNotFoundError) return null
        throw error
      }
    },
  }
}
