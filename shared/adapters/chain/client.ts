import { createPublicClient, http, type PublicClient } from 'viem'
import { base } from 'viem/chains'

/** A call that takes longer is treated as an unreachable network; callers are told that no money moved. */
const RPC_TIMEOUT_MS = 5000

/** Reads from the payment network over JSON-RPC, without hidden retries: callers decide what a failure means. */
export function createChainClient(rpcUrl: string): PublicClient {
  return createPublicClient({
    chain: base,
    transport: http(rpcUrl, { timeout: RPC_TIMEOUT_MS, retryCount: 0 }),
    cacheTime: 0,
  }) as PublicClient
}
