import type { PublicClient } from 'viem'
import type { Broadcast, SignedTransaction } from '#shared/payment/facilitator.ts'
import { isAccountNonceUsed, isAlreadySent } from '../network/rpc-failure.ts'

/**
 * Sends a raw transaction to the nodes. Any unclear answer is `unreachable`: the transaction may have been broadcast.
 */
export async function broadcast(client: PublicClient, { raw }: SignedTransaction): Promise<Broadcast> {
  try {
    await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
    return { outcome: 'sent' }
  } catch (cause) {
    if (isAlreadySent(cause)) return { outcome: 'sent' }
    return isAccountNonceUsed(cause) ? { outcome: 'account_nonce_used' } : { outcome: 'unreachable', cause }
  }
}
