import { toHex } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'

/** Resumes mining, beginning with a block for all pending transactions. */
export async function setMining(rpcUrl: string, isOn: boolean): Promise<void> {
  await callRpc(rpcUrl, 'evm_setAutomine', [isOn])
  if (isOn) await mine(rpcUrl, 1)
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
