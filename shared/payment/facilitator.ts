import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'

/** Reasons for which an authorization is refused, by the chain or for its signature. Each is a public error code. */
export type RefusalCode =
  | 'payment_signature_invalid'
  | 'payment_nonce_used'
  | 'payment_expired'
  | 'payment_not_yet_valid'
  | 'insufficient_funds'
  | 'permit2_allowance_required'
  | 'permit_already_used'
  | 'payer_has_code'
  | 'payer_not_deployed'
  | 'payment_rejected'

/**
 * The result of verifying an authorization. `unreachable` is a failure of the network: it must not lead to a new
 * challenge.
 */
export type Verification =
  /**
   * `needsPermit`: settles only if its EIP-2612 permit of exactly its maximum is submitted, because the allowance is too
   * low. Never for a lasting permit, which the settlement contract submits when it is needed.
   */
  | { outcome: 'valid'; needsPermit: boolean }
  | {
      outcome: 'refused'
      code: RefusalCode
      detail?: string
      /** With `permit2_allowance_required`: the nonce of the payer's next permit, at the block that was read. */
      permitNonce?: bigint
    }
  /** `detail`: what to say instead of that the network is unreachable. */
  | { outcome: 'unreachable'; cause: unknown; detail?: string }

/**
 * What a signature shows by itself: `key`, that the key of the payer's account made it; `no`, that it can never be valid;
 * `ask_chain`, nothing: a wallet with code may take it, and so does whoever makes it up, without any key.
 */
export type SignedBy = 'key' | 'ask_chain' | 'no'

/** Whether the payer's account takes the signature of an authorization, whatever has become of the payment. */
export type WalletAnswer =
  | { outcome: 'signed' }
  | { outcome: 'not_signed' }
  | { outcome: 'unreachable'; cause: unknown }

/** Verifies authorizations. Has no private key, so the API can use it. */
export interface AuthorizationVerifier {
  /** Returns whether the named payer signed the authorization. Computed locally, and once for each object. */
  isSignedByPayer(authorization: Authorization): SignedBy
  /**
   * Asks the payer's account for a signature that shows nothing by itself: one RPC call. For replays, which `verify` would
   * refuse since their payment is settled.
   */
  askWallet(authorization: Authorization): Promise<WalletAnswer>
  /**
   * Checks whether the authorization could be settled now for `amount` (atomic USDC), and whether the payer's account
   * may pay. A part of one RPC call for a payment to the settlement contract, otherwise two concurrent calls, or three
   * with a permit. An account with code costs two calls, and one more when its code is new to this process.
   */
  verify(authorization: Authorization, amount: AtomicAmount): Promise<Verification>
}

/** A signed transaction. */
export interface SignedTransaction {
  readonly hash: `0x${string}`
  readonly raw: `0x${string}`
}

/** Terms that are fixed before signing. Read from the chain outside of any database transaction. */
export interface SettlementTerms {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
  /** The most gas that this payment may use: of its transaction, or of its part of a batch. */
  readonly gasLimit: bigint
  /** Decided at settlement: a permit is not submitted while the allowance suffices. */
  readonly submitsPermit: boolean
}

/** One of the payments that a transaction settles. */
export interface PreparedCharge {
  readonly authorization: Authorization
  readonly chargeAmount: AtomicAmount
  readonly terms: SettlementTerms
}

export type PreparedSettlement =
  | {
      outcome: 'ready'
      terms: SettlementTerms
      /**
       * The settlement key that sends it: the one that the payer signed, or for a payer who signed the settlement
       * contract one that the contract lists.
       */
      sender: `0x${string}`
      /** The settlement contract, which settles several in one transaction; `null` when the key settles directly. */
      contract: `0x${string}` | null
      /**
       * The most gas that the sender's balance allows in one batch. Nodes refuse a transaction that the balance does not
       * cover at its highest fee. `null` when the key settles directly.
       */
      affordableGas: bigint | null
      minimumAccountNonce: bigint
    }
  | { outcome: 'refused'; code: RefusalCode; detail?: string }
  /** The settlement contract lists none of this process's keys: the payer is not at fault. */
  | { outcome: 'not_listed' }
  | { outcome: 'unreachable'; cause: unknown }

export type Broadcast =
  /** `wasKnown`: whether the node says that it had the transaction. */
  | { outcome: 'sent'; wasKnown: boolean }
  /** The account nonce is used: by this transaction, by another of this service, or by another user of the key. */
  | { outcome: 'account_nonce_used' }
  /** No node has room for it in its pool until a block was mined. It answers reads as before. */
  | { outcome: 'pool_full'; cause: unknown }
  /** No node takes a transaction of this size: its calldata or its gas limit exceeds what they allow. */
  | { outcome: 'too_large'; cause: unknown }
  | { outcome: 'unreachable'; cause: unknown }

/** What a mined transaction cost its sender; of a batch, the part of one payment. The parts add up to the whole. */
export interface GasSpent {
  readonly gasUsed: bigint
  readonly effectiveGasPrice: bigint
  /** The whole cost in USDC, including the fee that a rollup charges for the transaction's data. */
  readonly cost: AtomicAmount
}

/**
 * The result of a confirmation. `confirmed` is proof of payment: the transaction succeeded, transferred the charge and
 * is deep enough.
 */
export type Confirmation =
  | {
      outcome: 'confirmed'
      blockNumber: bigint
      blockHash: `0x${string}`
      blockTimestamp: Date
      gas: GasSpent
    }
  /** The payment's own transaction reverted, or the contract reports that it failed in its batch. */
  | { outcome: 'reverted'; blockNumber: bigint; blockHash: `0x${string}`; gas: GasSpent }
  /** The whole batch reverted, which says nothing about this payment: it has to be signed again. `gas`: of the batch. */
  | { outcome: 'batch_reverted'; blockNumber: bigint; blockHash: `0x${string}`; gas: GasSpent }
  /** The transaction succeeded without the expected transfer. An operator must review it. */
  | { outcome: 'transfer_missing'; blockNumber: bigint }
  /** `isMined`: in a block that is not deep enough yet. */
  | { outcome: 'pending'; isMined?: true }
  | { outcome: 'unreachable'; cause: unknown }

/** The state of an authorization and of the accounts that settle it, at one block. */
export type SettlementEvidence =
  | {
      outcome: 'read'
      readonly blockNumber: bigint
      readonly blockHash: `0x${string}`
      /** By settlement key: every account nonce below this is used. */
      accountNonceCounts: ReadonlyMap<`0x${string}`, bigint>
      /** Whether the payer's Permit2 nonce is used, by a settlement or invalidated by the payer. */
      isNonceUsed: boolean
      /** The block's time. No later block can meet a deadline before it. */
      chainTime: Date
    }
  | { outcome: 'unreachable'; cause: unknown }

/** Settles charges on chain. It has the settlement keys, so only workers use it. */
export interface Settler {
  /**
   * Simulates the charge and reads fees, without changing any state. `minimumAccountNonce` is the chain's count at a
   * key's first settlement in this process; afterwards the ledger counts.
   */
  prepare(authorization: Authorization, chargeAmount: AtomicAmount): Promise<PreparedSettlement>
  /** Signs with the facilitator's key. Computed locally, so it may run inside a database transaction. */
  sign(
    authorization: Authorization,
    chargeAmount: AtomicAmount,
    terms: SettlementTerms,
    accountNonce: bigint,
  ): Promise<SignedTransaction>
  /**
   * Signs one transaction that settles all of these through the settlement contract that their payers signed. Computed
   * locally. Its fees are the highest of their terms.
   */
  signBatch(charges: readonly PreparedCharge[], sender: `0x${string}`, accountNonce: bigint): Promise<SignedTransaction>
  /** Returns the gas limit that a batch of these needs, so that each may use all of its own. */
  batchGas(terms: readonly Pick<SettlementTerms, 'gasLimit'>[]): bigint
  /** Broadcasts the raw transaction. Succeeds if the network already has it. */
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
  confirm(hash: `0x${string}`, authorization: Authorization, chargeAmount: AtomicAmount): Promise<Confirmation>
  /**
   * Reads, at one block, the state that decides whether a late settlement can still happen: at the newest block, or by
   * default at one as deep as a confirmation must be.
   */
  readEvidence(
    authorization: Authorization,
    senders: readonly `0x${string}`[],
    at?: 'newest',
  ): Promise<SettlementEvidence>
  /** Returns whether the log index has a transfer of this payer in one of these transactions since `fromBlock`. */
  findTransfer(
    hashes: readonly `0x${string}`[],
    authorization: Authorization,
    fromBlock: bigint,
  ): Promise<'found' | 'missing' | 'unreachable'>
}
