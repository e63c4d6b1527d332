import { LRUCache } from 'lru-cache'
import { type Address, type PublicClient, parseAbi } from 'viem'

/** As Chainalysis publishes it: go.chainalysis.com/chainalysis-oracle-docs.html, `isSanctioned`. */
const ORACLE_ABI = parseAbi(['function isSanctioned(address addr) view returns (bool)'])
const KEPT_MS = 600_000
const KEPT_ADDRESSES = 10_000

/** Creates a reader of a list on chain. Its answers are kept for ten minutes. Rejects when no node answers. */
export function createScreeningOracle(client: PublicClient, oracle: Address): (payer: string) => Promise<boolean> {
  const known = new LRUCache<string, boolean>({ max: KEPT_ADDRESSES, ttl: KEPT_MS })
  return async (payer) => {
    const kept = known.get(payer)
    if (kept !== undefined) return kept
    const isListed = await client.readContract({
      address: oracle,
      abi: ORACLE_ABI,
      functionName: 'isSanctioned',
      args: [payer as Address],
    })
    known.set(payer, isListed)
    return isListed
  }
}
