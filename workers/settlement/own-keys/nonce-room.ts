import type { BlockWatch } from '#shared/adapters/chain/reading/block-watch.ts'
import type { SettlementAccounts } from '#shared/adapters/chain/settlement/settlement-accounts.ts'

export interface NonceRoomDependencies {
  readonly accounts: Pick<SettlementAccounts, 'countAccountNonces'>
  readonly blockWatch: Pick<BlockWatch, 'follow'>
}

/** Account nonces of one key that the chain has used: each of them lets another one be taken. */
export interface NonceRoom {
  /** The chain's count when this process last read it; 0 before. */
  minedCount(): bigint
  /** Waits until the count has changed since it was last read, or for a block. Called when the key has no nonce left. */
  wait(): Promise<void>
}

/** While no node answers, the ledger is asked again after this: another process may have seen more of the chain. */
const LONGEST_WAIT_MS = 2500
const NEVER = new AbortController().signal

export function createNonceRoom({ accounts, blockWatch }: NonceRoomDependencies, key: `0x${string}`): NonceRoom {
  let mined = 0n
  const hasGrown = async () => {
    const count = await accounts.countAccountNonces(key).catch(() => mined)
    const isMore = count > mined
    if (isMore) mined = count
    return isMore
  }
  return {
    minedCount: () => mined,
    wait: async () => {
      // Before the count is read, so that no block is missed.
      const following = blockWatch.follow([])
      try {
        if (await hasGrown()) return
        await following.next({ longestMs: LONGEST_WAIT_MS, signal: NEVER, everyBlock: true })
        await hasGrown()
      } finally {
        following.stop()
      }
    },
  }
}
