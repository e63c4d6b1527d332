import type { PublicClient } from 'viem'
import { namingSetting } from '#shared/runtime/start-process.ts'
import { chainClientOf } from './client.ts'
import { CHAIN_ID } from './contracts.ts'
import { openRpcNodes, type RpcNodes } from './rpc-nodes.ts'

interface OpenedChain {
  readonly chain: PublicClient
  readonly nodes: RpcNodes
}

/** Opens the payment network. Throws a `StartFailure` when a node serves another chain, but not when none answers. */
export async function openChain(settings: {
  readonly RPC_URL: readonly string[]
  readonly RPC_TIMEOUT_MS: number
}): Promise<OpenedChain> {
  const nodes = openRpcNodes(settings.RPC_URL, settings.RPC_TIMEOUT_MS)
  await namingSetting('RPC_URL', () => nodes.refuseOtherChains(CHAIN_ID))
  return { chain: chainClientOf(nodes), nodes }
}
