import type { Ledgers, SettlementEntry } from './ledgers.ts'

/** Between the look at the chain that proves a settlement and its commit, also when the database was away meanwhile. */
const COMMIT_MS = 20_000

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
  const wasMoved = finishedAt !== null && reorganizedAt.some((at) => at >= finishedAt - COMMIT_MS)
  return wasMoved && hashes.includes(transaction)
}
