import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'

/** The state of an authorization on chain, regardless of the ledger. */
export type SettlementOnChain =
  | { outcome: 'unused' }
  /** No transaction settled the payment, and its payer invalidated the nonce. */
  | { outcome: 'cancelled' }
  | { outcome: 'settled'; transaction: `0x${string}`; blockNumber: bigint; amount: AtomicAmount }
  /**
   * The nonce is used, but neither a settlement nor an invalidation was found: the blocks or the payer's other payments
   * are too many to search, or the node does not have the newest blocks yet.
   */
  | { outcome: 'unexplained' }
  | { outcome: 'unreachable'; cause: unknown }

/**
 * Finds settlements on chain that the ledger has no row of, as after a restore from a backup: without this, a caller
 * whose payment was settled would be answered that it was not, and asked for another one.
 */
export interface SettlementSearch {
  /**
   * One RPC call for a nonce that is not used. About a dozen for one that is, and one for each payment of this payer in
   * the same blocks, at most 300. `since`: when the authorization was accepted; no earlier block can have settled it.
   * Never throws.
   */
  find(authorization: Authorization, since?: Date): Promise<SettlementOnChain>
}

/** A settlement that the ledger does not know, for a person to refund or explain. */
export interface UnknownSettlement {
  readonly authorization: Authorization
  readonly found: Extract<SettlementOnChain, { outcome: 'settled' }>
  /** The key under which its caller presented it. */
  readonly idempotencyKey: string | null
  readonly requestId: string | null
  readonly jobId: string | null
}
