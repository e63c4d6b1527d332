import { PATIENCE_MS } from '../../support/patience.ts'
import type { Ledgers, SettlementEntry } from './ledgers.ts'
import { indexTransfers } from './payment-transfers.ts'

/** Maximum time between the read that proves a settlement and its commit, including a database outage in between. */
const COMMIT_MS = PATIENCE_MS

/**
 * Returns whether `transaction` is the settlement's: the one on chain, or one that was on chain until a reorganization
 * replaced it by another transaction with the same account nonce.
 */
export function namesSettlement(
  transaction: string,
  { transactionHash, hashes, finishedAt }: SettlementEntry,
  { reorganizedAt }: Ledgers['chain'],
): boolean {
  if (transaction === transactionHash) return true
  return wasReorganizedSince(finishedAt, reorganizedAt) && hashes.includes(transaction)
}

/**
 * Returns which settlements a reorganization removed, and their payers made impossible before they were mined again: the
 * risk of releasing at one confirmation. The ledger must have recognized it, or still try, as it does until the payment's
 * deadline when the payer can end what prevents it.
 */
export function findLostToReorganization({ chain, database, clients }: Ledgers): ReadonlySet<SettlementEntry> {
  const jobOf = new Map(database.jobs.map((job) => [job.id, job]))
  const hindered = new Set(
    clients.calls.filter(({ hindersSettlement }) => hindersSettlement).map(({ idempotencyKey }) => idempotencyKey),
  )
  const transfers = indexTransfers(chain.transfers)
  const isMissing = (settlement: SettlementEntry) =>
    hindered.has(jobOf.get(settlement.jobId)?.idempotencyKey ?? '') &&
    transfers.inTransaction(settlement, settlement.transactionHash ?? '') === undefined
  return new Set(
    database.settlements.filter(
      (settlement) =>
        wasReorganizedSince(settlement.finishedAt, chain.reorganizedAt) &&
        (settlement.state === 'lost' || (settlement.state === 'confirmed' && isMissing(settlement))),
    ),
  )
}

/** Returns whether the chain was reorganized since the settlement was decided, or while it was. */
export function wasReorganizedSince(finishedAt: number | null, reorganizedAt: readonly number[]): boolean {
  return finishedAt !== null && reorganizedAt.some((at) => at >= finishedAt - COMMIT_MS)
}
