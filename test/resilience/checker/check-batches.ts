import type { Ledgers, MinedBatch, SettlementEntry, Violation } from './ledgers.ts'
import { wasReorganizedSince } from './names-settlement.ts'

/**
 * Checks what batches add: their gas falls on their payments once, no payer is held responsible for a batch that was
 * reverted as a whole, and the contract settled nothing that the ledger does not know.
 */
export function checkBatches({ chain, database }: Ledgers): Violation[] {
  const settlementsOf = new Map<string, SettlementEntry[]>()
  for (const settlement of database.settlements)
    for (const hash of settlement.hashes) settlementsOf.set(hash, [...(settlementsOf.get(hash) ?? []), settlement])
  const batchOf = new Map(chain.batches.map((batch) => [batch.transactionHash, batch]))
  const jobs = new Map(database.jobs.map((job) => [job.id, job]))
  return [
    ...chain.batches.flatMap((batch) => {
      const settlements = settlementsOf.get(batch.transactionHash) ?? []
      return [...checkKnown(batch, settlements), ...checkGas(batch, settlements, chain.reorganizedAt)]
    }),
    ...database.settlements.flatMap((settlement): Violation[] => {
      const job = jobs.get(settlement.jobId)
      const isBlamed =
        settlement.state === 'reverted' &&
        settlement.batchId !== null &&
        job?.authorizationId === settlement.authorizationId &&
        /reverted in block/.test(job.failureReason ?? '') &&
        !wasReorganizedSince(settlement.finishedAt, chain.reorganizedAt)
      const hasFailed = settlement.hashes.some((hash) =>
        batchOf.get(hash)?.payments.some((payment) => !payment.isSettled && isOf(payment, settlement)),
      )
      if (!isBlamed || hasFailed) return []
      const detail = `${settlement.id} failed, but the contract reports no failure of its payment`
      return [{ invariant: 'blame', jobId: settlement.jobId, detail }]
    }),
  ]
}

function checkKnown({ transactionHash, payments }: MinedBatch, settlements: readonly SettlementEntry[]): Violation[] {
  return payments
    .filter((payment) => !settlements.some((settlement) => isOf(payment, settlement)))
    .map(({ payer, nonce }) => ({
      invariant: 'I1',
      jobId: null,
      detail: `${transactionHash} has a payment ${nonce} of ${payer} that is not a settlement in the ledger`,
    }))
}

/** The parts of a batch's gas are never more than its gas, and exactly all of it once each of its payments has one. */
function checkGas(
  { transactionHash, gasUsed, isReverted, payments }: MinedBatch,
  settlements: readonly SettlementEntry[],
  reorganizedAt: readonly number[],
): Violation[] {
  if (isReverted) return []
  const mine = settlements.filter((settlement) => payments.some((payment) => isOf(payment, settlement)))
  // Of a settlement in several transactions, it is not known here which of them its gas is of.
  const counted = mine.filter(
    ({ hashes, transactionHash: proven, state }) =>
      (state === 'confirmed' && proven === transactionHash) || (state === 'reverted' && hashes.length === 1),
  )
  if (counted.some(({ finishedAt }) => wasReorganizedSince(finishedAt, reorganizedAt))) return []
  const sum = counted.reduce((total, settlement) => total + (settlement.gasUsed ?? 0n), 0n)
  const isComplete = counted.length === payments.length && counted.every((settlement) => settlement.gasUsed !== null)
  if (sum <= gasUsed && (!isComplete || sum === gasUsed)) return []
  const detail = `${transactionHash} used ${gasUsed} gas, and its ${counted.length} settlements ${sum}`
  return [{ invariant: 'gas', jobId: counted[0]?.jobId ?? null, detail }]
}

function isOf(one: { payer: string; nonce: string }, { payer, nonce }: SettlementEntry): boolean {
  return one.payer === payer && one.nonce === nonce
}
