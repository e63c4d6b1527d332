/** How long a challenge may be paid. */
export const CHALLENGE_LIFETIME_SECONDS = 600

/** The fixed part of every challenge. Addresses are in lower case. */
export interface PaymentTerms {
  /** CAIP-2, `eip155:8453` in production. */
  readonly network: string
  readonly asset: `0x${string}`
  readonly spender: `0x${string}`
  /** The Permit2 contract, which the payer grants the allowance to. */
  readonly permit2: `0x${string}`
  /** The recipient that challenges name. */
  readonly payTo: `0x${string}`
  /** The recipients that payments may name: that of challenges, and while it is being replaced the other one too. */
  readonly acceptedRecipients: readonly `0x${string}`[]
  /** Facilitators of which a challenge names one: the settlement contract, or the settlement keys. */
  readonly facilitators: readonly `0x${string}`[]
  /** The settlement contract, which takes lasting permits; `null` without one. */
  readonly settlementContract: `0x${string}` | null
  /** Facilitators that payments may name: contract, keys, and those of both that are being added or removed. */
  readonly acceptedFacilitators: readonly `0x${string}`[]
  /**
   * Those of them that no new call may name, only the payment of an earlier one: the keys beside a contract. A payer who
   * names a key has it send a transaction of its own, which costs more gas than a part of a batch.
   */
  readonly formerFacilitators: readonly `0x${string}`[]
  /** Time for which a payer's signature should stay valid, in seconds. */
  readonly maxTimeoutSeconds: number
  /**
   * Minimum remaining validity of a signature at acceptance, in seconds. A long answer needs more: see
   * `extraOutputSeconds`.
   */
  readonly minimumRemainingSeconds: number
  readonly outputTokensPerSecond: number
  readonly challengeLifetimeSeconds: number
}

/** The constant part of `accepts[0].extra`: the token's EIP-712 domain and the transfer method. */
export const SIGNING_TERMS = { name: 'USD Coin', version: '2', assetTransferMethod: 'permit2' } as const
