import { keccak256, parseTransaction, recoverTransactionAddress, type TransactionSerialized } from 'viem'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { RpcCall, RpcFault, RpcProxy } from './rpc-proxy.ts'

type Hex = `0x${string}`

/**
 * What reth (paradigmxyz/reth, main, read on 2026-11-25) holds of one sender and how it refuses more. Pool:
 * `TXPOOL_MAX_ACCOUNT_SLOTS_PER_SENDER: usize = 16` (crates/transaction-pool/src/config.rs) and
 * `if current_txs >= self.max_account_slots && transaction.nonce() > on_chain_nonce`, "If transaction's nonce matches
 * on-chain nonce always let it through" (src/pool/txpool.rs, `ensure_valid`); a replacement is counted like any other, a
 * known transaction is answered before. RPC: `SpammerExceededCapacity(_) | DiscardedOnInsert => TxPoolOverflow`, which is
 * `#[error("txpool is full")]` with `EthRpcErrorCode::TransactionRejected`, -32003 (crates/rpc/rpc-eth-types/src/error/mod.rs).
 */
export const RETH_SLOTS = 16
export const RETH_POOL_IS_FULL = { code: -32_003, message: 'txpool is full' } as const

export interface LimitedPool {
  /** Transactions that arrived, and how many of them were refused because their sender had too many. */
  readonly sends: number
  readonly refusals: number
  /** The most that it held of one sender at once. */
  readonly mostHeld: number
  /** Calls that were answered with a 429: reads and sends. */
  readonly limited: { readonly reads: number; readonly sends: number }
}

/**
 * Lets a proxy hold at most `slots` pending transactions of one sender, which anvil does not limit, and answer 429 to
 * more than `callsPerSecond`, as providers do.
 */
export function limitPool(
  proxy: RpcProxy,
  rpcUrl: string,
  {
    slots = RETH_SLOTS,
    callsPerSecond = Number.POSITIVE_INFINITY,
  }: { readonly slots?: number; readonly callsPerSecond?: number } = {},
): LimitedPool {
  const held = new Map<Hex, Map<bigint, Hex>>()
  const arrivals: number[] = []
  const pool = { sends: 0, refusals: 0, mostHeld: 0, limited: { reads: 0, sends: 0 } }
  const isOverLimit = () => {
    const now = performance.now()
    while (arrivals[0] !== undefined && arrivals[0] <= now - 1000) arrivals.shift()
    if (arrivals.length >= callsPerSecond) return true
    arrivals.push(now)
    return false
  }
  const hold = async (raw: Hex): Promise<RpcFault | null> => {
    const sender = await recoverTransactionAddress({ serializedTransaction: raw as TransactionSerialized })
    const nonce = BigInt(parseTransaction(raw).nonce ?? 0)
    const count = BigInt(await callRpc<Hex>(rpcUrl, 'eth_getTransactionCount', [sender, 'latest']))
    const ofSender = held.get(sender) ?? new Map<bigint, Hex>()
    held.set(sender, ofSender)
    for (const earlier of ofSender.keys()) if (earlier < count) ofSender.delete(earlier)
    if (nonce > count && ofSender.size >= slots && ofSender.get(nonce) !== keccak256(raw)) {
      pool.refusals += 1
      return { kind: 'error', ...RETH_POOL_IS_FULL }
    }
    if (nonce >= count) ofSender.set(nonce, keccak256(raw))
    pool.mostHeld = Math.max(pool.mostHeld, ofSender.size)
    return null
  }
  proxy.chooseFault(({ method, params }: RpcCall) => {
    const isSend = method === 'eth_sendRawTransaction'
    if (isSend) pool.sends += 1
    if (isOverLimit()) {
      pool.limited[isSend ? 'sends' : 'reads'] += 1
      return { kind: 'status', status: 429 }
    }
    return isSend ? hold(params[0] as Hex) : null
  })
  return pool
}
