import type { PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SettlementEvidence } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'
import { readConfirmedBlock } from '../reading/confirmed-block.ts'

/**
 * Reads account nonce, payer's nonce and time at one block, `confirmations` deep (1: the newest). A nonce and a count
 * read at different blocks prove nothing: a settlement may have been mined in between. Three RPC calls, four when deeper
 * than 1.
 */
export async function readEvidence(
  client: PublicClient,
  { facilitator, payer, nonce }: Authorization,
  confirmations: number,
): Promise<SettlementEvidence> {
  try {
    const block = await readConfirmedBlock(client, confirmations)
    const at = { blockHash: block.hash, requireCanonical: true } as const
    const [count, usedNonces] = await Promise.all([
      client.getTransactionCount({ address: facilitator, ...at }),
      client.readContract({
        address: PERMIT2_ADDRESS,
        abi: permit2Abi,
        functionName: 'nonceBitmap',
        args: [payer, wordOfNonce(nonce)],
        ...at,
      }),
    ])
    return {
      outcome: 'read',
      blockNumber: block.number,
      blockHash: block.hash,
      accountNonceCount: BigInt(count),
      isNonceUsed: hasNonce(usedNonces, nonce),
      chainTime: new Date(Number(block.timestamp) * 1000),
    }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
