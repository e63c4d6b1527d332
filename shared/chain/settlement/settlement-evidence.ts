import { LRUCache } from 'lru-cache'
import type { Hex, PublicClient } from 'viem'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SettlementEvidence } from '#shared/payment/facilitator.ts'
import { PERMIT2_ADDRESS, permit2Abi } from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'
import { readConfirmedBlock } from '../reading/confirmed-block.ts'

export type ReadEvidence = (
  authorization: Pick<Authorization, 'payer' | 'nonce'>,
  senders: readonly Hex[],
  confirmations: number,
) => Promise<SettlementEvidence>

/** Counts of account nonces that are remembered; a count at one block, named by its hash, never changes. */
const KEPT_COUNTS = 128

/**
 * Creates the reading of account nonces, payer's nonce and time at one block, `confirmations` deep (1: the newest). A
 * nonce and a count read at different blocks prove nothing: a settlement may have been mined in between. Two RPC calls,
 * three when deeper than 1, and one for each sender whose count at that block is not known yet: the payments of a batch
 * have the same sender.
 */
export function createReadEvidence(client: PublicClient): ReadEvidence {
  const counts = new LRUCache<string, Promise<bigint>>({ max: KEPT_COUNTS })
  const countAt = async (sender: Hex, blockHash: Hex) => {
    const key = `${blockHash} ${sender}`
    const count = counts.get(key) ?? readCount(client, sender, blockHash)
    counts.set(key, count)
    try {
      return await count
    } catch (error) {
      counts.delete(key)
      throw error
    }
  }
  return async ({ payer, nonce }, senders, confirmations) => {
    try {
      const block = await readConfirmedBlock(client, confirmations)
      const [usedNonces, ...read] = await Promise.all([
        client.readContract({
          address: PERMIT2_ADDRESS,
          abi: permit2Abi,
          functionName: 'nonceBitmap',
          args: [payer, wordOfNonce(nonce)],
          blockHash: block.hash,
          requireCanonical: true,
        }),
        ...senders.map((sender) => countAt(sender, block.hash)),
      ])
      return {
        outcome: 'read',
        blockNumber: block.number,
        blockHash: block.hash,
        accountNonceCounts: new Map(senders.map((sender, index) => [sender, read[index] ?? 0n])),
        isNonceUsed: hasNonce(usedNonces, nonce),
        chainTime: new Date(Number(block.timestamp) * 1000),
      }
    } catch (cause) {
      return { outcome: 'unreachable', cause }
    }
  }
}

async function readCount(client: PublicClient, address: Hex, blockHash: Hex): Promise<bigint> {
  return BigInt(await client.getTransactionCount({ address, blockHash, requireCanonical: true }))
}
