import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'
import type { Confirmation, RefusalCode } from './facilitator.ts'

/** How a remote facilitator answered the request to collect a charge. Only the chain tells whether money moved. */
export type SettlementAnswer =
  /** It names the transaction, whatever it says of its success. */
  | { outcome: 'sent'; hash: `0x${string}` }
  /** It sent nothing, and would not later: the payment itself is at fault. */
  | { outcome: 'refused'; code: RefusalCode; reason: string }
  /** It sent nothing now, for a reason that need not last. */
  | { outcome: 'not_taken'; reason: string }
  /** A timeout, a lost answer, a failure after which something may be on its way. */
  | { outcome: 'unknown'; cause: unknown }

/** Where the chain stands with an authorization that somebody else settles. */
export type SettlementFinding =
  | { outcome: 'unreachable'; cause: unknown }
  | { outcome: 'found'; hash: `0x${string}`; blockNumber: bigint; blockHash: `0x${string}`; blockTimestamp: Date }
  /** Unused, and still in time: it can be settled. */
  | { outcome: 'open' }
  /** Unused, and past its deadline by chain time: it can never be settled. */
  | { outcome: 'expired' }
  /** The payer invalidated the nonce himself: it can never be settled. */
  | { outcome: 'burned' }
  /** Used, yet no transaction of the charge is to be found. */
  | { outcome: 'unexplained' }

/** A facilitator that holds the settlement keys elsewhere, and our own reading of what it did. */
export interface RemoteFacilitator {
  /** Asks it to collect the charge. Asking again is safe: the nonce is good for one transfer only. */
  settle(authorization: Authorization, chargeAmount: AtomicAmount): Promise<SettlementAnswer>
  /** The block before which nothing of a settlement recorded now can be. */
  readFirstBlock(): Promise<{ outcome: 'read'; blockNumber: bigint } | { outcome: 'unreachable'; cause: unknown }>
  confirm(hash: `0x${string}`, authorization: Authorization, chargeAmount: AtomicAmount): Promise<Confirmation>
  /** Looks without knowing a hash: the nonce, the clock and the transfers since `firstBlock`. */
  find(authorization: Authorization, chargeAmount: AtomicAmount, firstBlock: bigint): Promise<SettlementFinding>
}
