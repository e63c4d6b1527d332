import { LRUCache } from 'lru-cache'
import type { PublicClient } from 'viem'
import type { Broadcast, SignedTransaction } from '#shared/payment/facilitator.ts'
import { isAccountNonceUsed, isAlreadySent, isPoolFull, isTooLarge } from '../network/rpc-failure.ts'

/** How long an answer counts for the other payments of a batch, which are sent some at a time. */
const KEPT_MS = 250
const KEPT_ANSWERS = 1024

/**
 * Sends a raw transaction to the nodes. Any unclear answer is `unreachable`: the transaction may have been broadcast.
 */
export async function broadcast(client: PublicClient, { raw }: SignedTransaction): Promise<Broadcast> {
  try {
    await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
    return { outcome: 'sent', wasKnown: false }
  } catch (cause) {
    if (isAlreadySent(cause)) return { outcome: 'sent', wasKnown: true }
    if (isAccountNonceUsed(cause)) return { outcome: 'account_nonce_used' }
    if (isPoolFull(cause)) return { outcome: 'pool_full', cause }
    return isTooLarge(cause) ? { outcome: 'too_large', cause } : { outcome: 'unreachable', cause }
  }
}

/** Broadcasts that all payments of a batch share. */
export interface SharedBroadcasts {
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
  /** Sends every transaction again from now on. Call it when the chain was read: a block with it may be gone. */
  forget(): void
}

/**
 * Creates broadcasts that send a transaction once for all who send it at the same time or a moment later. After no answer
 * it is sent again at once.
 */
export function createSharedBroadcasts(client: PublicClient): SharedBroadcasts {
  const answers = new LRUCache<string, Promise<Broadcast>>({ max: KEPT_ANSWERS, ttl: KEPT_MS, ttlResolution: 0 })
  return {
    broadcast: async (transaction) => {
      const { hash } = transaction
      const sent = answers.get(hash)
      if (sent) return await sent
      const answer = broadcast(client, transaction)
      answers.set(hash, answer, { ttl: 0 })
      const { outcome } = await answer
      if (answers.get(hash) === answer) {
        if (outcome === 'unreachable' || outcome === 'pool_full') answers.delete(hash)
        else answers.set(hash, answer)
      }
      return await answer
    },
    forget: () => answers.clear(),
  }
}
