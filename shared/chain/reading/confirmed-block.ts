import type { PublicClient } from 'viem'

/**
 * Reads the newest block that has `confirmations` (1: the newest of all). Name it by its hash in the calls that follow: nodes
 * on two branches have different blocks of the same number, and a node without that block fails the call instead of
 * answering from another one. One RPC call, two when deeper than 1.
 */
export async function readConfirmedBlock(client: PublicClient, confirmations: number) {
  const latest = await client.getBlock()
  const depth = BigInt(confirmations) - 1n
  const blockNumber = latest.number > depth ? latest.number - depth : 0n
  return blockNumber === latest.number ? latest : await client.getBlock({ blockNumber })
}
