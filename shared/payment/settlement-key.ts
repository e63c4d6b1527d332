type Hex = `0x${string}`

/**
 * The most transactions of a key that are signed and not mined. reth, which Base runs, holds 16 of one sender unless its
 * operator changed `--txpool.max-account-slots`, and refuses more.
 */
export const MOST_UNMINED_NONCES = 16

/** One settlement key on one network. */
export interface SettlementAccount {
  readonly network: string
  readonly facilitator: Hex
}
