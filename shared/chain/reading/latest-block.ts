import type { Hex, PublicClient } from 'viem'

/** What is read of a block. */
export interface Block {
  readonly number: bigint
  readonly hash: Hex
  readonly parentHash: Hex
  readonly timestamp: bigint
  readonly transactions: readonly Hex[]
}

/** The newest block, shared by everything in a process that reads it. */
export interface LatestBlock {
  /** Reads the newest block: one RPC call. */
  read(): Promise<Block>
  /** Returns the block of the last read, unless that was too long ago. */
  recent(): Block | null
}

/** How long a block counts as recent; shorter than a block time, since a reorganization may remove it. */
const RECENT_MS = 1000

export function createLatestBlock(client: PublicClient): LatestBlock {
  let seen: { readonly block: Block; readonly until: number } | null = null
  return {
    read: async () => {
      const { number, hash, parentHash, timestamp, transactions } = await client.getBlock()
      const block = { number, hash, parentHash, timestamp, transactions }
      seen = { block, until: performance.now() + RECENT_MS }
      return block
    },
    recent: () => (seen && performance.now() < seen.until ? seen.block : null),
  }
}
