import { BlockNotFoundError, type PublicClient } from 'viem'

/** Reads the canonical blocks of the chain. Throws when the network does not answer. */
export interface BlockReader {
  /** Returns the number of the newest final block, which can never be replaced. */
  readFinalizedNumber(): Promise<bigint>
  /** Returns the hash of the current block with this number, or `null` when the chain is shorter (or has become so). */
  readHash(blockNumber: bigint): Promise<`0x${string}` | null>
}

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
