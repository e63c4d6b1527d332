import { PATIENCE_MS } from '../../support/patience.ts'
import type { AuthorizationEntry, Ledgers, SettlementEntry } from './ledgers.ts'
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
  const permits = database.authorizations.flatMap((entry) => permitOf(entry) ?? [])
  const signedTwice = new Set(permits.filter((permit, index) => permits.indexOf(permit) !== index))
  const authorizationOf = new Map(database.authorizations.map((entry) => [entry.id, entry]))
  // With its block, the payer's own permit was unused again, and signed once more for another payment.
  const isPermitReused = ({ authorizationId }: SettlementEntry) =>
    signedTwice.has(permitOf(authorizationOf.get(authorizationId)) ?? '')
  const isHindered = (settlement: SettlementEntry) =>
    hindered.has(jobOf.get(settlement.jobId)?.idempotencyKey ?? '') || isPermitReused(settlement)
  const isMissing = (settlement: SettlementEntry) =>
    isHindered(settlement) && transfers.inTransaction(settlement, settlement.transactionHash ?? '') === undefined
  return new Set(
    database.settlements.filter(
      (settlement) =>
        wasReorganizedSince(settlement.finishedAt, chain.reorganizedAt) &&
        (settlement.state === 'lost' || (settlement.state === 'confirmed' && isMissing(settlement))),
    ),
  )
}

function permitOf(authorization: AuthorizationEntry | undefined): string | undefined {
  const { payer, permitNonce = null } = authorization ?? {}
  return permitNonce === null ? undefined : `${payer} ${permitNonce}`
}

/** Returns whether the chain was reorganized since the settlement was decided, or while it was. */
export function wasReorganizedSince(finishedAt: number | null, reorganizedAt: readonly number[]): boolean {
  return finishedAt !== null && reorganizedAt.some((at) => at >= finishedAt - COMMIT_MS)
}
