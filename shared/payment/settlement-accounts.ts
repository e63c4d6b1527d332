import type { Broadcast, SignedTransaction } from './facilitator.ts'

type Hex = `0x${string}`

/** The accounts of this process's settlement keys. Methods throw when the chain cannot be read. */
export interface SettlementAccounts {
  /** Their addresses in lower case. */
  readonly facilitators: readonly Hex[]
  /** Returns the number of used account nonces, which is the next nonce to be mined. */
  countAccountNonces(facilitator: Hex): Promise<bigint>
  /** Returns the same number including the pending transactions that the node knows. */
  countPendingNonces(facilitator: Hex): Promise<bigint>
  /** Returns whether a stored transaction's fee cap is below the base fee of the next block. */
  isUnderpriced(raw: Hex): Promise<boolean>
  /**
   * Signs a stored transaction again under the same account nonce, with fees high enough to replace it. Returns `null`
   * when they would exceed the maximum fee.
   */
  replace(facilitator: Hex, raw: Hex): Promise<SignedTransaction | null>
  /** Returns whether the balance covers the most that a signed transaction can cost; nodes refuse it otherwise. */
  canPay(facilitator: Hex, raw: Hex): Promise<boolean>
  /** Returns the most that a signed transaction can cost: its gas limit at its fee cap. */
  maximumCostWei(raw: Hex): bigint
  /**
   * Signs an empty transfer of the account to itself: for a nonce gap, or to replace a stored transaction that must no
   * longer be mined.
   */
  fill(facilitator: Hex, accountNonce: bigint, instead: Hex | null): Promise<SignedTransaction>
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
}
