import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** Where a payer's money comes from, at a block some time ago. */
export interface PayerProvenance {
  readonly balance: AtomicAmount
  /** USDC that the payer received in the blocks before it, by sender in lower case. */
  readonly received: readonly { readonly from: string; readonly amount: AtomicAmount }[]
}

export type ProvenanceReading =
  | { readonly outcome: 'read'; readonly provenance: PayerProvenance }
  /** The balance of that block does not suffice, so no more was read. */
  | { readonly outcome: 'insufficient'; readonly balance: AtomicAmount }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads where the money of payers comes from, for payments that are not covered by what the payer has paid so far. */
export interface ProvenanceReader {
  /** How many blocks ago the money has to be there; 0 for the newest block. */
  readonly blocks: number
  /** Returns what was read of this payer some seconds ago, or `null`. */
  recent(payer: `0x${string}`): PayerProvenance | null
  read(payer: `0x${string}`, needed: AtomicAmount): Promise<ProvenanceReading>
}
