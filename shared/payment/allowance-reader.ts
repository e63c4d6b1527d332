import type { AllowancePermit, OwnerAllowance } from './allowance-permit.ts'

/** An owner's allowance, the code of the account and the block of the reading. */
export interface AllowanceReading extends OwnerAllowance {
  /** Whether the account runs code: its signatures are judged by that code, at any cost of gas. */
  readonly hasCode: boolean
  readonly block: bigint
  /** The block's time in Unix seconds. */
  readonly chainTime: bigint
}

export type ReadAllowance =
  | ({ readonly outcome: 'read' } & AllowanceReading)
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

export type PermitSimulation =
  /**
   * `expectedGasWei`: what its transaction costs at the fees of the moment, with a margin. `reservedGasWei`: the most that
   * it may cost, with room for higher fees while it is pending.
   */
  | { readonly outcome: 'valid'; readonly expectedGasWei: bigint; readonly reservedGasWei: bigint }
  /** `reason`: the contract's own words, for logs. */
  | { readonly outcome: 'refused'; readonly reason: string }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads allowances and tries permits, without any key, so the API can use it. */
export interface AllowanceReader {
  /** Reads at one block: two concurrent RPC calls, of which the first reads everything but the account's code. */
  readAllowance(owner: `0x${string}`): Promise<ReadAllowance>
  /**
   * Simulates the permit with the gas limit and the fees of its transaction, as the call of the settlement key that
   * would send it.
   */
  simulatePermit(permit: AllowancePermit, facilitators: readonly `0x${string}`[]): Promise<PermitSimulation>
  /** Returns the EIP-712 hash that the owner signs; it identifies a permit. Computed locally. */
  digestOf(permit: Omit<AllowancePermit, 'signature'>): `0x${string}`
  /** Returns whether the owner's key signed the permit for its nonce. Computed locally. */
  isSignedByOwner(permit: AllowancePermit): boolean
}
