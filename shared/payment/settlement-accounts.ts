import type { Broadcast, SignedTransaction } from './facilitator.ts'

type Hex = `0x${string}`

/** The sending accounts behind this process's settlement keys. What cannot be read from the chain throws. */
export interface SettlementAccounts {
  /** Their addresses, lower case. */
  readonly facilitators: readonly Hex[]
  /** How many account nonces the chain has used: the next one it will take. */
  countAccountNonces(facilitator: Hex): Promise<bigint>
  /** The same with those of transactions that wait to be mined, as far as the node knows of them. */
  countWaitingNonces(facilitator: Hex): Promise<bigint>
  /** Whether what a stored transaction offers for gas is too little for the next block. */
  isUnderpriced(raw: Hex): Promise<boolean>
  /**
   * Signs a stored transaction anew under the same account nonce, with fees that nodes accept in its place; `null` when that
   * would be more than the highest fee allowed.
   */
  replace(facilitator: Hex, raw: Hex): Promise<SignedTransaction | null>
  /**
   * Signs a transfer of nothing to oneself, for an account nonce that nothing else was signed for, or in place of a stored
   * transaction that must not be mined any more.
   */
  fill(facilitator: Hex, accountNonce: bigint, instead: Hex | null): Promise<SignedTransaction>
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
}
