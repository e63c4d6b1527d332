import type { ChainTransfer, JobEntry, Ledgers, SettlementEntry, Violation } from './ledgers.ts'
import { findLostToReorganization, namesSettlement } from './names-settlement.ts'
import { indexSettlements, indexTransfers } from './payment-transfers.ts'

/**
 * Checks I1, and the part of I5 that the ledger shows: each transfer belongs to exactly one settlement and equals its
 * charge, no job has two, every charged job is completed, and the balances agree to the atomic unit.
 */
export function checkCharges(ledgers: Ledgers): Violation[] {
  const { chain, database } = ledgers
  const jobs = new Map(database.jobs.map((job) => [job.id, job]))
  const settlementOf = indexSettlements(database.settlements)
  return [
    ...chain.transfers.flatMap((transfer) => checkTransfer(transfer, settlementOf(transfer), jobs)),
    ...checkOncePerJob(ledgers, settlementOf),
    ...checkCompleted(ledgers),
    ...checkBalance(ledgers),
  ]
}

function checkTransfer(
  { transactionHash, from, amount, nonce }: ChainTransfer,
  settlement: SettlementEntry | undefined,
  jobs: ReadonlyMap<string, JobEntry>,
): Violation[] {
  if (!settlement)
    return [
      {
        invariant: 'I1',
        jobId: null,
        detail: `${described(transactionHash, nonce)} is not a settlement in the ledger`,
      },
    ]
  const { jobId, chargeAmount } = settlement
  const job = jobs.get(jobId)
  const violations: Violation[] = []
  if (amount !== chargeAmount)
    violations.push({ invariant: 'I1', jobId, detail: `${amount} was transferred for a charge of ${chargeAmount}` })
  if (job && job.payer !== from)
    violations.push({ invariant: 'I1', jobId, detail: `${from} paid for a job of ${job.payer}` })
  if (job && amount > job.quotedMaximum)
    violations.push({ invariant: 'I1', jobId, detail: `${amount} is more than the quoted ${job.quotedMaximum}` })
  if (job?.state !== 'completed')
    violations.push({ invariant: 'I5', jobId, detail: `charged by ${transactionHash}, but ${job?.state ?? 'unknown'}` })
  return violations
}

function described(transactionHash: string, nonce: string | null): string {
  return nonce === null ? transactionHash : `${transactionHash}, payment ${nonce},`
}

function checkOncePerJob(
  { chain, database }: Ledgers,
  settlementOf: (transfer: ChainTransfer) => SettlementEntry | undefined,
): Violation[] {
  const transfersOf = countBy(chain.transfers.flatMap((transfer) => settlementOf(transfer)?.jobId ?? []))
  const openOf = countBy(database.settlements.filter(({ state }) => state !== 'reverted').map(({ jobId }) => jobId))
  const signedOf = countBy(database.settlements.map(({ authorizationId }) => authorizationId))
  const nonces = new Map<string, string>()
  const claims = database.authorizations.flatMap(({ payer, nonce, jobId }): Violation[] => {
    const earlier = nonces.get(`${payer} ${nonce}`)
    nonces.set(`${payer} ${nonce}`, jobId)
    if (earlier === undefined) return []
    return [{ invariant: 'I1', jobId, detail: `its payment was also claimed for ${earlier}` }]
  })
  const jobsOf = countBy(database.jobs.map(({ idempotencyKey }) => idempotencyKey))
  const twice = database.jobs
    .filter(({ idempotencyKey }) => (jobsOf.get(idempotencyKey) ?? 0) > 1)
    .map(({ id }): Violation => ({ invariant: 'I1', jobId: id, detail: 'one of two jobs under one key' }))
  const jobOf = new Map(database.settlements.map(({ authorizationId, jobId }) => [authorizationId, jobId]))
  return [
    ...[...transfersOf].filter(([, count]) => count > 1).map(([jobId, count]) => over('transfers', jobId, count)),
    ...[...openOf].filter(([, count]) => count > 1).map(([jobId, count]) => over('open settlements', jobId, count)),
    ...[...signedOf]
      .filter(([, count]) => count > 1)
      .map(([authorizationId, count]) => over('settlements of one payment', jobOf.get(authorizationId) ?? null, count)),
    ...claims,
    ...twice,
  ]
}

function over(what: string, jobId: string | null, count: number): Violation {
  return { invariant: 'I1', jobId, detail: `${count} ${what}` }
}

/** Checks that a completed job has exactly one confirmed settlement on chain, and a receipt that matches it. */
function checkCompleted(ledgers: Ledgers): Violation[] {
  const { chain, database } = ledgers
  const lost = findLostToReorganization(ledgers)
  const transfers = indexTransfers(chain.transfers)
  return database.jobs
    .filter(({ state }) => state === 'completed')
    .flatMap(({ id: jobId, authorizationId, chargeAmount, receiptId, resultDigest }): Violation[] => {
      const settlement = database.settlements.find((entry) => entry.authorizationId === authorizationId)
      const receipt = database.receipts.find(({ id }) => id === receiptId)
      const violations: Violation[] = []
      // A charge of zero moves nothing and needs no transaction.
      const isLost = settlement !== undefined && lost.has(settlement)
      const transfer = settlement && transfers.inTransaction(settlement, settlement.transactionHash ?? '')
      if (chargeAmount !== 0n && !isLost && transfer?.amount !== chargeAmount)
        violations.push({ invariant: 'I4', jobId, detail: 'completed, but its charge is not on chain' })
      if (receipt?.jobId !== jobId) violations.push({ invariant: 'I5', jobId, detail: 'completed without a receipt' })
      else if (receipt.chargeAtomic !== chargeAmount?.toString() || receipt.resultDigest !== resultDigest)
        violations.push({ invariant: 'I1', jobId, detail: 'the receipt states another charge or result than the job' })
      else if (chargeAmount !== 0n && !(settlement && namesSettlement(receipt.transaction, settlement, chain)))
        violations.push({ invariant: 'I1', jobId, detail: 'the receipt names another transaction than the settlement' })
      return violations
    })
}

function checkBalance(ledgers: Ledgers): Violation[] {
  const { chain, database } = ledgers
  const transferred = chain.transfers.reduce((sum, { amount }) => sum + amount, 0n)
  const lost = new Set([...findLostToReorganization(ledgers)].map(({ jobId }) => jobId))
  const charged = database.jobs
    .filter(({ id, state }) => state === 'completed' && !lost.has(id))
    .reduce((sum, { chargeAmount }) => sum + (chargeAmount ?? 0n), 0n)
  if (chain.recipientBalance === transferred && transferred === charged) return []
  const detail = `the recipient holds ${chain.recipientBalance}, transfers are ${transferred}, completed charges ${charged}`
  return [{ invariant: 'I1', jobId: null, detail }]
}

export function countBy(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1)
  return counts
}
