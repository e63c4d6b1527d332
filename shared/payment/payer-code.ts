/**
 * Whether the account of a payer may pay. Permit2 lets an account with code validate signatures itself, with any amount
 * of gas and a result that may change at any time, so such a payment proves nothing until it is settled.
 */
export type PayerCodeCheck =
  /** The account has no code, or delegates to a contract that the operator allows. */
  | { outcome: 'allowed' }
  | { outcome: 'refused'; code: 'payer_has_code'; detail: string }
  | { outcome: 'unreachable'; cause: unknown }

/** The code of an account, as far as a policy needs it. */
export interface AccountCode {
  /** In bytes; 0 for an account without code. */
  readonly size: bigint
  /** The first 23 bytes, which are a whole delegation (EIP-7702), filled up with zeros. */
  readonly prefix: `0x${string}`
}

/** Applies the operator's policy for accounts with code. */
export interface PayerCodePolicy {
  /** Judges code that was read already. */
  judge(code: AccountCode): Exclude<PayerCodeCheck, { outcome: 'unreachable' }>
  /** Reads the account's code at the latest block: one RPC call. It may be different in the next block. */
  check(payer: `0x${string}`): Promise<PayerCodeCheck>
}
