import { PATIENCE_MS } from '../../support/patience.ts'
import type { Ledgers, SettlementEntry } from './ledgers.ts'

/** Between the look at the chain that proves a settlement and its commit, also when the database was away meanwhile. */
const COMMIT_MS = PATIENCE_MS

/**
 * Whether `transaction` is the settlement's: the one that is in the chain, or one that was there until a reorganisation put
 * another transaction of the same account nonce in its place.
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
 * What releasing at one confirmation risks: a reorganisation took the settlement back, and before it was in the chain again its
 * payer saw to it that it never will be. The ledger must say so by itself.
 */
export function wasLostToReorganization(
  { state, finishedAt }: SettlementEntry,
  { reorganizedAt }: Ledgers['chain'],
): boolean {
  return state === 'lost' && wasReorganizedSince(finishedAt, reorganizedAt)
}

function wasReorganizedSince(finishedAt: number | null, reorganizedAt: readonly number[]): boolean {
  return finishedAt !== null && reorganizedAt.some((at) => at >= finishedAt - COMMIT_MS)
}
