type Hex = `0x${string}`

/**
 * An owner's EIP-2612 permit of the asset for Permit2, which waits for the owner's next charge: a lasting allowance
 * without gas.
 */
export interface AllowancePermit {
  /** In lower case. */
  readonly owner: Hex
  readonly value: bigint
  /** Unix seconds. */
  readonly deadline: bigint
  /** The asset's nonce of the owner for which the signature recovers to the owner. */
  readonly nonce: bigint
  /** 65 bytes r, s, v with a low s and a v of 27 or 28. */
  readonly signature: Hex
}

/** An owner's allowance, permit nonce and balance, read at one block. */
export interface OwnerAllowance {
  /** Permit2's allowance: what it may take of the owner's balance. */
  readonly allowance: bigint
  /** The nonce of the owner's next permit. */
  readonly permitNonce: bigint
  readonly balance: bigint
}

/**
 * Returns whether a permit for `value` would change nothing that matters: Permit2 may already take that much, or
 * everything that the owner has.
 */
export function isAllowanceSufficient({ allowance, balance }: OwnerAllowance, value: bigint): boolean {
  return allowance > 0n && (allowance >= value || (balance > 0n && allowance >= balance))
}
