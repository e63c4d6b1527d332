import { createPublicClient, type PublicClient } from 'viem'
import { base } from './base-chain.ts'
import { rpcTransport } from './rpc-transport.ts'

const DEFAULT_TIMEOUT_MS = 5000

/**
 * Creates a client of the payment network over JSON-RPC, without hidden retries: the caller decides what a failure
 * means. A call that takes longer than `timeoutMs` fails like an unreachable network.
 */
export function createChainClient(rpcUrl: string, timeoutMs = DEFAULT_TIMEOUT_MS): PublicClient {
  return createPublicClient({
    chain: base,
    transport: rpcTransport(rpcUrl, timeoutMs),
    cacheTime: 0,
  }) as PublicClient
}
