import { toHex } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'

/** Seconds between blocks of nodes that do not mine each transaction at once. */
const intervals = new Map<string, number>()

/** Mines a block at regular intervals from now on, as real chains do: settlements gather until the next one. */
export async function useBlocks(rpcUrl: string, seconds: number): Promise<void> {
  intervals.set(rpcUrl, seconds)
  await setMining(rpcUrl, true)
}

/**
 * Stops mining, or resumes it, beginning with a block for all pending transactions, and `depth` blocks with that one: those
 * who poll see them as one step, not as a chain that mines faster.
 */
export async function setMining(rpcUrl: string, isOn: boolean, depth = 1): Promise<void> {
  const seconds = intervals.get(rpcUrl)
  if (seconds === undefined) await callRpc(rpcUrl, 'evm_setAutomine', [isOn])
  else await callRpc(rpcUrl, 'evm_setIntervalMining', [isOn ? seconds : 0])
  if (isOn) await mine(rpcUrl, depth)
}

export async function mine(rpcUrl: string, blocks: number): Promise<void> {
  await callRpc(rpcUrl, 'anvil_mine', [toHex(blocks)])
}

type Waiting = Record<string, Record<string, { readonly hash: string }>>

/** Drops pending transactions, as a node does that restarts. */
export async function dropPendingTransactions(rpcUrl: string): Promise<void> {
  const pool = await callRpc<{ pending: Waiting; queued: Waiting }>(rpcUrl, 'txpool_content', [])
  for (const byNonce of [...Object.values(pool.pending), ...Object.values(pool.queued)])
    for (const { hash } of Object.values(byNonce)) await callRpc(rpcUrl, 'anvil_dropTransaction', [hash])
}

/** Replaces the newest blocks by empty ones; only the service sends their transactions again. */
export async function reorganize(rpcUrl: string, depth: number): Promise<void> {
  await callRpc(rpcUrl, 'anvil_reorg', [depth, []])
}
