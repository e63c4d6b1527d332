/** The place of a transfer on chain. */
export interface RefundTransfer {
  readonly transaction: string
  readonly logIndex: number
  readonly blockNumber: bigint
}

/** A transfer of any token in a mined transaction. Addresses are in lower case. */
export interface MinedTransfer extends RefundTransfer {
  readonly asset: string
  readonly from: string
  readonly to: string
  readonly amount: bigint
}

/** A transaction that is said to be a refund, as the configured chain has it. */
export type RefundOnChain =
  /** No block of this chain contains it. */
  | { readonly outcome: 'unknown' }
  | {
      readonly outcome: 'mined'
      readonly isReverted: boolean
      readonly blockNumber: bigint
      readonly minedAt: Date
      /** Whether the transaction's block is final and still on the chain. */
      readonly isFinal: boolean
      readonly transfers: readonly MinedTransfer[]
    }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads what a transaction of the configured chain transferred. */
export interface RefundReader {
  /** The chain and the asset that refunds are proven on. */
  readonly network: string
  readonly asset: string
  /** Further accounts of the operator, in lower case, besides the recipient of the payment, that may refund it. */
  readonly senders: readonly string[]
  /** Never throws. */
  read(transaction: string): Promise<RefundOnChain>
}

/** The payment that a refund returns. */
export interface RefundedPayment {
  readonly network: string
  readonly payer: string
  /** The account that the payment is for, in lower case. */
  readonly payTo: string
  readonly amount: bigint
  /** The block of the payment, where it is known. */
  readonly blockNumber: bigint | null
  /** A moment before the payment, where it is known. */
  readonly paidAfter: Date | null
}

export type RefundProof =
  | { readonly outcome: 'proven'; readonly transfers: readonly RefundTransfer[] }
  /** `sentence` says why, for the operator. */
  | { readonly outcome: 'refused'; readonly why: RefusedRefund; readonly sentence: string }

export type RefusedRefund =
  | 'malformed'
  | 'other_network'
  | 'unknown'
  | 'unreachable'
  | 'reverted'
  | 'wrong_asset'
  | 'wrong_payer'
  | 'from_payer'
  | 'from_stranger'
  | 'wrong_amount'
  | 'too_early'
  | 'not_final'
