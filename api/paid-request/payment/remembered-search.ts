import { LRUCache } from 'lru-cache'
import type { SettlementOnChain, SettlementSearch } from '#shared/adapters/chain/reading/settlement-search.ts'

/** How long an answer is repeated that a later block may change. */
const SHORT_MS = 10_000
const MAXIMUM_ANSWERS = 20_000
/** Searches that run or wait: strangers may cause more than the node can answer, and each keeps its request. */
const MAXIMUM_SEARCHES = 200

/**
 * Wraps a search to answer from memory when a payment with the same nonce is presented again: a final answer for as
 * long as there is space, any other for seconds. With too many searches at a time the chain counts as unreachable.
 */
export function createRememberedSearch(
  search: SettlementSearch,
  now: () => number = () => performance.now(),
): SettlementSearch {
  const answers = new LRUCache<string, { readonly found: SettlementOnChain; readonly until: number }>({
    max: MAXIMUM_ANSWERS,
  })
  let searches = 0
  return {
    find: async (authorization, since) => {
      // Not the signature: a payer can sign any number of payments with one nonce, of which one can be settled at most.
      const key = `${authorization.payer}:${authorization.nonce}`
      const known = answers.get(key)
      if (known && now() < known.until) return known.found
      if (searches >= MAXIMUM_SEARCHES)
        return { outcome: 'unreachable', cause: new Error(`more than ${MAXIMUM_SEARCHES} searches`) }
      searches += 1
      const found = await search.find(authorization, since)
      searches -= 1
      if (found.outcome !== 'unreachable') {
        const isFinal = found.outcome === 'settled' || found.outcome === 'cancelled'
        answers.set(key, { found, until: isFinal ? Number.POSITIVE_INFINITY : now() + SHORT_MS })
      }
      return found
    },
  }
}
