import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { StoredTransaction } from './job.ts'

type Hex = `0x${string}`

/** One settlement key on one network. */
export interface SettlementAccount {
  readonly network: string
  readonly facilitator: Hex
}

/** The newest transaction of one account nonce. */
export interface QueuedTransaction extends StoredTransaction {
  readonly ageMs: number
  /** Its settlement has failed: the payer was told so, and it must not collect anything any more. */
  readonly isGivenUp: boolean
}

/** What waits in an account's line, from the account nonce on that the chain takes next. */
export interface NonceQueue {
  /** How long that nonce has been the next one, as far as was seen. */
  readonly headAgeMs: number
  /** The first account nonce that is not taken yet; nothing waits when it is the next one. */
  readonly nextAccountNonce: bigint
  /** How many account nonces were found used that this ledger did not give out: somebody else sends with the key. */
  readonly usedElsewhere: number
  /** In order, at most a batch of them. */
  readonly transactions: readonly QueuedTransaction[]
  /** Of the next account nonce: the one that a receipt names, which a reorganisation took out of the chain. */
  readonly released: SignedTransaction | null
}

/** A block that confirmed settlements stand in. `hash` is `null` where only the number was kept. */
export interface SettledBlock {
  readonly number: bigint
  readonly hash: string | null
}

/** A confirmed settlement whose block may be replaced still. */
export interface UnfinalSettlement {
  readonly settlementId: string
  readonly jobId: string
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly block: SettledBlock
  /** The one of `transactions` that its receipt names. */
  readonly transactionHash: string
  /** Newest first. */
  readonly transactions: readonly StoredTransaction[]
}

/** Where a settlement is proven to be. */
export interface SettledAt {
  readonly transactionHash: string
  readonly blockNumber: bigint
  readonly blockHash: string
}

/** What a look at the whole of the ledger's settlements gives. */
export interface SettlementTotals {
  /** Those that are not done with: signed, confirmed but not final, unproven, lost. */
  readonly counts: Readonly<Record<'signed' | 'confirmed' | 'unproven' | 'lost', number>>
  readonly oldestSignedAgeSeconds: number
}

/**
 * The ledger of account nonces. None of it needs a job's fence: whatever is added here shares an account nonce with what was
 * there before, so that at most one of them is ever mined.
 */
export interface SettlementStore {
  /** Whether this process may keep the account's line now; nobody else may until it releases it or `leaseMs` are over. */
  leaseNonceQueue(account: SettlementAccount, leaseMs: number): Promise<boolean>
  /** The first account nonce that is not taken yet; `null` for a key that this ledger never settled with. */
  readNextAccountNonce(account: SettlementAccount): Promise<bigint | null>
  /** Remembers the chain's count and gives what waits behind it. */
  readNonceQueue(account: SettlementAccount, accountNonceCount: bigint): Promise<NonceQueue>
  /** Stores a replacement beside the transaction that it replaces, for the same settlement and account nonce. */
  addReplacement(replacedHash: Hex, replacement: SignedTransaction): Promise<void>
  /** Stores a filler for an account nonce that has no transaction which is still wanted; `false` when it has one after all. */
  fillGap(account: SettlementAccount, accountNonce: bigint, filler: SignedTransaction): Promise<boolean>
  releaseNonceQueue(account: SettlementAccount): Promise<void>
  /** The newest blocks that confirmed settlements stand in, and the oldest of those up to `finalizedNumber`. */
  findUnfinalBlocks(finalizedNumber: bigint): Promise<readonly SettledBlock[]>
  /** Confirmed settlements from this block number on, oldest block first, at most `limit`. */
  readUnfinal(fromNumber: bigint, limit: number): Promise<readonly UnfinalSettlement[]>
  /** confirmed, final from now on: all settlements in these blocks. Gives their number. */
  markFinal(blockHashes: readonly string[]): Promise<number>
  /** confirmed, in another block than before: the chain was reorganised. A final one does not move. */
  moveSettlement(settlementId: string, to: SettledAt): Promise<void>
  /** confirmed → lost: the chain gave it up and it cannot be settled any more. The job stays completed. */
  loseSettlement(settlementId: string, reason: string): Promise<void>
  readTotals(): Promise<SettlementTotals>
}
