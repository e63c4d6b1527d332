import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'
import type { Confirmation, RefusalCode } from './facilitator.ts'

/** A remote facilitator's answer to a settlement request. Only the chain shows whether money moved. */
export type SettlementAnswer =
  /** The facilitator named a transaction, whatever it reported about its success. */
  | { outcome: 'sent'; hash: `0x${string}` }
  /** The facilitator sent nothing and never will: the payment itself is invalid. */
  | { outcome: 'refused'; code: RefusalCode; reason: string }
  /** The facilitator sent nothing, for a reason that may be temporary. */
  | { outcome: 'not_taken'; reason: string }
  /** A timeout, a lost response or another failure after which a transaction may be on its way. */
  | { outcome: 'unknown'; cause: unknown }

/** The state on chain of an authorization that a remote facilitator settles. */
export type SettlementFinding =
  | { outcome: 'unreachable'; cause: unknown }
  | { outcome: 'found'; hash: `0x${string}`; blockNumber: bigint; blockHash: `0x${string}`; blockTimestamp: Date }
  /** The nonce is unused and the deadline has not passed: it can be settled. */
  | { outcome: 'open'; blockNumber: bigint; blockHash: `0x${string}` }
  /** The nonce is unused and the deadline has passed by the block's time: it can never be settled on this chain. */
  | { outcome: 'expired'; blockNumber: bigint; blockHash: `0x${string}` }
  /** The payer invalidated the nonce: it can never be settled on this chain. */
  | { outcome: 'burned'; blockNumber: bigint; blockHash: `0x${string}` }
  /** The nonce is used, yet no transaction of the charge was found. */
  | { outcome: 'unexplained' }

/** A remote facilitator, which has the settlement keys, and our own check of its work on chain. */
export interface RemoteFacilitator {
  /** Requests settlement of the charge. Safe to repeat: the nonce allows only one transfer. */
  settle(authorization: Authorization, chargeAmount: AtomicAmount): Promise<SettlementAnswer>
  /** Returns a block that every settlement requested from now on comes after. */
  readFirstBlock(): Promise<{ outcome: 'read'; blockNumber: bigint } | { outcome: 'unreachable'; cause: unknown }>
  confirm(hash: `0x${string}`, authorization: Authorization, chargeAmount: AtomicAmount): Promise<Confirmation>
  /** Finds the settlement without a hash: checks the nonce, the deadline and the transfers since `firstBlock`. */
  find(authorization: Authorization, chargeAmount: AtomicAmount, firstBlock: bigint): Promise<SettlementFinding>
}
