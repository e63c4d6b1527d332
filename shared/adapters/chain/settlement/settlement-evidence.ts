import type { PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SettlementEvidence } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'

/**
 * Reads account nonce, payer's nonce and time at one block, `confirmations` deep (1: the newest). A nonce and a count
 * read at different blocks prove nothing: a settlement may have been mined in between. The block is named by its hash,
 * because nodes on two branches have different blocks of the same number; a node without that block fails the call
 * instead of answering from another one. Three RPC calls, four when deeper than 1.
 */
export async function readEvidence(
  client: PublicClient,
  { facilitator, payer, nonce }: Authorization,
  confirmations: number,
): Promise<SettlementEvidence> {
  try {
    const latest = await client.getBlock()
    const depth = BigInt(confirmations) - 1n
    const blockNumber = latest.number > depth ? latest.number - depth : 0n
    const block = blockNumber === latest.number ? latest : await client.getBlock({ blockNumber })
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
      blockNumber,
      blockHash: block.hash,
      accountNonceCount: BigInt(count),
      isNonceUsed: hasNonce(usedNonces, nonce),
      chainTime: new Date(Number(block.timestamp) * 1000),
    }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
