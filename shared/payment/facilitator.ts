import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'

/** Why the chain, or the signature itself, refuses an authorization. Each is an error code of the table. */
export type RefusalCode =
  | 'payment_signature_invalid'
  | 'payment_nonce_used'
  | 'payment_expired'
  | 'payment_not_yet_valid'
  | 'insufficient_funds'
  | 'permit2_allowance_required'
  | 'payment_rejected'

/** `unreachable` is the network's failure, never the payment's: it must not be answered with a fresh challenge. */
export type Verification =
  /** `needsPermit`: only by submitting its EIP-2612 permit; the allowance alone does not suffice. */
  | { outcome: 'valid'; needsPermit: boolean }
  | { outcome: 'refused'; code: RefusalCode; detail?: string }
  | { outcome: 'unreachable'; cause: unknown }

/** Checks authorizations. Holds no private key, so the API may have one. */
export interface AuthorizationVerifier {
  /** Whether the named payer really signed this. Local arithmetic, no network. */
  isSignedByPayer(authorization: Authorization): Promise<boolean>
  /** Whether the authorization could be settled now for `amount` (atomic USDC). One RPC call, or two at once with a permit. */
  verify(authorization: Authorization, amount: AtomicAmount): Promise<Verification>
}

/** A settlement transaction, signed and not yet sent. */
export interface SignedTransaction {
  readonly hash: `0x${string}`
  readonly raw: `0x${string}`
}

/** What must be fixed before signing; read from the chain outside of any database transaction. */
export interface SettlementTerms {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
  readonly gasLimit: bigint
  /** Chosen anew for the charge: a permit is never submitted while the allowance suffices. */
  readonly submitsPermit: boolean
}

export type PreparedSettlement =
  | { outcome: 'ready'; terms: SettlementTerms; minimumAccountNonce: bigint }
  | { outcome: 'refused'; code: RefusalCode; detail?: string }
  | { outcome: 'unreachable'; cause: unknown }

export type Broadcast =
  | { outcome: 'sent' }
  /** The account nonce is used up: by this transaction, by another of ours with the same nonce, or by a stranger. */
  | { outcome: 'account_nonce_used' }
  | { outcome: 'unreachable'; cause: unknown }

/** Proof of payment: a successful receipt that holds exactly the USDC transfer of the charge, deep enough in the chain. */
export type Confirmation =
  | { outcome: 'confirmed'; blockNumber: bigint; blockHash: `0x${string}`; blockTimestamp: Date }
  | { outcome: 'reverted'; blockNumber: bigint }
  /** The transaction succeeded without the expected transfer. A person must look. */
  | { outcome: 'transfer_missing'; blockNumber: bigint }
  | { outcome: 'pending' }
  | { outcome: 'unreachable'; cause: unknown }

/** What one block, as deep as a confirmation must be, says about an authorization and the account that settles it. */
export type SettlementEvidence =
  | {
      outcome: 'read'
      /** Every account nonce below it is used up. */
      accountNonceCount: bigint
      /** Whether Permit2 has the payer's nonce as used: by a settlement, or burnt by the payer. */
      isNonceUsed: boolean
      /** The block's own time. A deadline before it cannot be met by any later block. */
      chainTime: Date
    }
  | { outcome: 'unreachable'; cause: unknown }

/** Collects charges on chain. Only workers have one, since it holds the settlement keys. */
export interface Settler {
  /**
   * Simulates the charge and reads fees. No state changes anywhere. `minimumAccountNonce` is the chain's own count for the
   * first settlement of a key in this process, and 0 from then on, when the ledger counts.
   */
  prepare(authorization: Authorization, chargeAmount: AtomicAmount): Promise<PreparedSettlement>
  /** Signs with the facilitator's own key; pure computation, so it may run inside a database transaction. */
  sign(
    authorization: Authorization,
    chargeAmount: AtomicAmount,
    terms: SettlementTerms,
    accountNonce: bigint,
  ): Promise<SignedTransaction>
  /** Hands the raw transaction to the network. Resending one that is known already is a success. */
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
  confirm(hash: `0x${string}`, authorization: Authorization, chargeAmount: AtomicAmount): Promise<Confirmation>
  /** For a settlement that is late: what can still become of it. All of it is read at one and the same block. */
  readEvidence(authorization: Authorization): Promise<SettlementEvidence>
}
