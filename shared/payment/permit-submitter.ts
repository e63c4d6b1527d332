import type { AllowancePermit } from './allowance-permit.ts'
import type { AllowanceReading } from './allowance-reader.ts'
import type { Broadcast, GasSpent, SignedTransaction } from './facilitator.ts'

type Hex = `0x${string}`

/** Fees that are fixed before signing. */
export interface PermitTerms {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

export type PreparedPermit =
  | { readonly outcome: 'ready'; readonly terms: PermitTerms }
  | { readonly outcome: 'refused'; readonly reason: string }
  /** The reserved gas does not pay for the next block's base fee. */
  | { readonly outcome: 'underpriced' }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** A mined transaction of a permit's account nonce, deep enough. */
interface Mined {
  readonly blockNumber: bigint
  readonly blockHash: Hex
  readonly gas: GasSpent
  readonly costWei: bigint
}

export type PermitConfirmation =
  /** The transaction succeeded and set the allowance to the permit's value. */
  | ({ readonly outcome: 'confirmed' } & Mined)
  | ({ readonly outcome: 'reverted' } & Mined)
  /** The transaction succeeded without setting the allowance: a filler. */
  | ({ readonly outcome: 'event_missing' } & Mined)
  | { readonly outcome: 'pending'; readonly isMined?: true }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** The state of an owner and of the account that submits the permit, at one block as deep as a confirmation must be. */
export type PermitEvidence =
  | ({ readonly outcome: 'read'; readonly accountNonceCount: bigint } & Omit<AllowanceReading, 'hasCode'>)
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Submits permits with the settlement keys, so only workers use it. */
export interface PermitSubmitter {
  /** Returns the settlement key that submits this owner's permits: always the same one of the configured keys. */
  facilitatorOf(owner: Hex): Hex
  /** Simulates the permit with what it would be sent with, at most `reservedGasWei`. Changes nothing. */
  prepare(permit: AllowancePermit, reservedGasWei: bigint): Promise<PreparedPermit>
  /** Computed locally, so it may run inside a database transaction. */
  sign(permit: AllowancePermit, terms: PermitTerms, accountNonce: bigint): Promise<SignedTransaction>
  /** Broadcasts the raw transaction. Succeeds if the network already has it. */
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
  confirm(hash: Hex, permit: AllowancePermit): Promise<PermitConfirmation>
  readEvidence(owner: Hex, facilitator: Hex): Promise<PermitEvidence>
}
