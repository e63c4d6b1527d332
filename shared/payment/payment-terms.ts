/** The fixed part of every challenge: where the money goes and how. Addresses are lower case. */
export interface PaymentTerms {
  /** CAIP-2, `eip155:8453` in production. */
  readonly network: string
  readonly asset: `0x${string}`
  readonly spender: `0x${string}`
  /** The Permit2 contract, which the payer's allowance goes to. */
  readonly permit2: `0x${string}`
  readonly payTo: `0x${string}`
  /** Addresses that may settle; a challenge names one of them. */
  readonly facilitators: readonly `0x${string}`[]
  /** How long a payer's signature is asked to stay valid, in seconds. */
  readonly maxTimeoutSeconds: number
  /** The least time a signature must still have at acceptance: provider timeout plus settlement margin, in seconds. */
  readonly minimumRemainingSeconds: number
  readonly challengeLifetimeSeconds: number
}

/** The part of `accepts[0].extra` that is the same in every challenge: what the token's EIP-712 domain needs, and the method. */
export const SIGNING_TERMS = { name: 'USD Coin', version: '2', assetTransferMethod: 'permit2' } as const
