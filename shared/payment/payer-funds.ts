import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** What a payer could pay with, all read at one block. */
export interface PayerFunds {
  readonly balance: AtomicAmount
  /** What Permit2 may take of it. */
  readonly allowance: AtomicAmount
  readonly blockNumber: bigint
  /** Those of the payment nonces asked for that were used by then: what they paid is gone from `balance` already. */
  readonly usedNonces: ReadonlySet<bigint>
}

export type FundsReading =
  | { readonly outcome: 'read'; readonly funds: PayerFunds }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads what payers hold. */
export interface PayerFundsReader {
  /** A reading of the last second, or `null`. What the ledger knows of later settlements makes it exact. */
  recent(payer: `0x${string}`): PayerFunds | null
  /** One RPC call, whatever the number of nonces. */
  read(payer: `0x${string}`, nonces: readonly bigint[]): Promise<FundsReading>
}
