import type { ChainTransfer, SettlementEntry } from './ledgers.ts'

/** Finds transfers by the payment that they belong to: one transaction may settle several payments of one payer. */
export interface PaymentTransfers {
  /** Returns the transfer that this transaction made for the settlement, if any. */
  readonly inTransaction: (settlement: SettlementEntry, hash: string) => ChainTransfer | undefined
  /** Returns whether any of its transactions charged the payer. */
  readonly hasCharged: (settlement: SettlementEntry) => boolean
}

export function indexTransfers(transfers: readonly ChainTransfer[]): PaymentTransfers {
  const byPayment = new Map(transfers.map((transfer) => [keyOfTransfer(transfer), transfer]))
  const inTransaction = ({ payer, nonce }: SettlementEntry, hash: string) =>
    byPayment.get(keyOf(hash, payer, nonce)) ?? byPayment.get(hash)
  return {
    inTransaction,
    hasCharged: (settlement) => settlement.hashes.some((hash) => inTransaction(settlement, hash) !== undefined),
  }
}

/** Finds the settlement of a transfer. */
export function indexSettlements(
  settlements: readonly SettlementEntry[],
): (transfer: ChainTransfer) => SettlementEntry | undefined {
  const byPayment = new Map(
    settlements.flatMap((settlement) =>
      settlement.hashes.flatMap((hash) => [
        [keyOf(hash, settlement.payer, settlement.nonce), settlement] as const,
        // A transaction of a batch belongs to several, so its transfers must name their payment.
        ...(settlement.batchId === null ? [[hash, settlement] as const] : []),
      ]),
    ),
  )
  return (transfer) => byPayment.get(keyOfTransfer(transfer))
}

function keyOfTransfer({ transactionHash, from, nonce }: ChainTransfer): string {
  return nonce === null ? transactionHash : keyOf(transactionHash, from, nonce)
}

function keyOf(hash: string, payer: string, nonce: string): string {
  return `${hash} ${payer} ${nonce}`
}
