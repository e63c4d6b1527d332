import { PATIENCE_MS } from '../../support/patience.ts'
import type { Ledgers, SettlementEntry } from './ledgers.ts'

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
 * Returns whether a reorganization removed the settlement and its payer made it impossible before it was mined again:
 * the risk of releasing at one confirmation. The ledger must have recognized it.
 */
export function wasLostToReorganization(
  { state, finishedAt }: SettlementEntry,
  { reorganizedAt }: Ledgers['chain'],
): boolean {
  return state === 'lost' && wasReorganizedSince(finishedAt, reorganizedAt)
}

/** Returns whether the chain was reorganized since the settlement was decided, or while it was. */
export function wasReorganizedSince(finishedAt: number | null, reorganizedAt: readonly number[]): boolean {
  return finishedAt !== null && reorganizedAt.some((at) => at >= finishedAt - COMMIT_MS)
}
