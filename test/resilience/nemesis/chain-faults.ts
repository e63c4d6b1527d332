import { setTimeout as delay } from 'node:timers/promises'
import pLimit from 'p-limit'
import { toHex } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'

/** Anvil loses a block that it mines while it reorganizes, and keeps its number. */
const oneAtATime = pLimit(1)

/** Anvil mines a block within this time, and may begin one for a while after it was told to stop. */
const STILL_MS = 100

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
  await oneAtATime(() => callRpc(rpcUrl, 'anvil_mine', [toHex(blocks)]))
}

type Waiting = Record<string, Record<string, { readonly hash: string }>>

/** Drops pending transactions, as a node does that restarts. */
export async function dropPendingTransactions(rpcUrl: string): Promise<void> {
  const pool = await callRpc<{ pending: Waiting; queued: Waiting }>(rpcUrl, 'txpool_content', [])
  for (const byNonce of [...Object.values(pool.pending), ...Object.values(pool.queued)])
    for (const { hash } of Object.values(byNonce)) await callRpc(rpcUrl, 'anvil_dropTransaction', [hash])
}

/** Waits until no block is being mined any more. */
async function untilStill(rpcUrl: string): Promise<void> {
  for (let head = ''; ;) {
    const next = await callRpc<string>(rpcUrl, 'eth_blockNumber', [])
    if (next === head) return
    head = next
    await delay(STILL_MS)
  }
}

/**
 * Replaces the newest blocks by empty ones; only the service sends their transactions again. The chain's clock goes on:
 * anvil would set it back to the time of the replaced blocks, by minutes in a long campaign.
 */
export async function reorganize(rpcUrl: string, depth: number): Promise<void> {
  const isMining =
    (await callRpc<boolean>(rpcUrl, 'anvil_getAutomine', [])) ||
    (await callRpc<number | null>(rpcUrl, 'anvil_getIntervalMining', [])) !== null
  if (isMining) await setMining(rpcUrl, false)
  await untilStill(rpcUrl)
  await oneAtATime(async () => {
    await callRpc(rpcUrl, 'anvil_reorg', [depth, []])
    await callRpc(rpcUrl, 'evm_setTime', [Math.floor(Date.now() / 1000)])
  })
  if (isMining) await setMining(rpcUrl, true)
}
