import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** A payer's funds, read at one block. */
export interface PayerFunds {
  readonly balance: AtomicAmount
  /** The part of the balance that Permit2 may transfer. */
  readonly allowance: AtomicAmount
  /** The asset's nonce of the payer's next permit: one with this nonce can be submitted. */
  readonly permitNonce: bigint
  readonly blockNumber: bigint
  /** The requested payment nonces that were used at that block: `balance` no longer includes their charges. */
  readonly usedNonces: ReadonlySet<bigint>
}

export type FundsReading =
  | { readonly outcome: 'read'; readonly funds: PayerFunds }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads the funds of payers. */
export interface PayerFundsReader {
  /** Returns a reading of the last second, or `null`. The ledger's settlements since then correct it. */
  recent(payer: `0x${string}`): PayerFunds | null
  /** Reads the funds with one RPC call for any number of nonces. */
  read(payer: `0x${string}`, nonces: readonly bigint[]): Promise<FundsReading>
}
