import { createPublicClient, custom, type PublicClient } from 'viem'
import { base } from './base-chain.ts'
import type { RpcCall } from './rpc-node.ts'
import { openRpcNodes, type RpcNodes } from './rpc-nodes.ts'

const DEFAULT_TIMEOUT_MS = 5000

/**
 * Creates a client of the payment network over JSON-RPC. No call is retried at the same node, except a read whose block
 * was being replaced: the caller decides what a failure means.
 */
export function createChainClient(rpcUrls: string | readonly string[], timeoutMs = DEFAULT_TIMEOUT_MS): PublicClient {
  return chainClientOf(openRpcNodes([rpcUrls].flat(), timeoutMs))
}

export function chainClientOf(nodes: RpcNodes): PublicClient {
  return createPublicClient({
    chain: base,
    transport: custom(
      { request: (call: RpcCall) => nodes.call(call) },
      { key: 'http', name: 'HTTP JSON-RPC', retryCount: 0 },
    ),
    cacheTime: 0,
  }) as PublicClient
}
