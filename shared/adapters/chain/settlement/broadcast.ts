import type { PublicClient } from 'viem'
import type { Broadcast, SignedTransaction } from '#shared/payment/facilitator.ts'

/** The node has this transaction, or another of this service with the same nonce and a higher fee. */
const ALREADY_SENT = /already known|already imported|known transaction|replacement transaction underpriced/i
const NONCE_USED = /nonce too low/i

/**
 * Sends a raw transaction to the node. Any unclear answer is `unreachable`: the transaction may have been broadcast.
 */
export async function broadcast(client: PublicClient, { raw }: SignedTransaction): Promise<Broadcast> {
  try {
    await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
    return { outcome: 'sent' }
  } catch (cause) {
    if (!(cause instanceof Error)) return { outcome: 'unreachable', cause }
    if (ALREADY_SENT.test(cause.message)) return { outcome: 'sent' }
    return NONCE_USED.test(cause.message) ? { outcome: 'account_nonce_used' } : { outcome: 'unreachable', cause }
  }
}
