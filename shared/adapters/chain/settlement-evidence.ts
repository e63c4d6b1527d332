import type { PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SettlementEvidence } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi } from './contracts.ts'
import { hasNonce, wordOfNonce } from './permit2-nonce.ts'

/**
 * Reads account nonce, payer's nonce and time at one block, `confirmations` deep. One block, because from a clear nonce here
 * and a count there nothing follows: a settlement may have been mined in between. It is named by its hash, since nodes on
 * two branches have different blocks of one number. A node that does not have the block, or has given it up, fails the call
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
      accountNonceCount: BigInt(count),
      isNonceUsed: hasNonce(usedNonces, nonce),
      chainTime: new Date(Number(block.timestamp) * 1000),
    }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
