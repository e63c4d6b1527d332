import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { checkBatches } from './check-batches.ts'
import { checkCharges } from './check-charges.ts'
import { checkClients } from './check-clients.ts'
import { checkProviderCalls } from './check-provider-calls.ts'
import { checkUploads } from './check-uploads.ts'
import type { Ledgers, Violation } from './ledgers.ts'
import { indexTransfers } from './payment-transfers.ts'

/**
 * Compares the five ledgers of an idle system and returns every violation of an invariant. Pure: the same ledgers
 * always result in the same violations.
 */
export function check(ledgers: Ledgers): readonly Violation[] {
  return [
    ...checkCharges(ledgers),
    ...checkBatches(ledgers),
    ...checkResults(ledgers),
    ...checkProviderCalls(ledgers),
    ...checkClients(ledgers),
    ...checkUploads(ledgers),
    ...checkLiveness(ledgers),
  ]
}

/** Checks I2: everything that is charged, or about to be, has a stored result. */
function checkResults({ database, chain }: Ledgers): Violation[] {
  const transfers = indexTransfers(chain.transfers)
  const chargedJobs = new Set(
    database.settlements
      .filter((settlement) => settlement.state !== 'reverted' || transfers.hasCharged(settlement))
      .map(({ jobId }) => jobId),
  )
  const invariant = 'I2' as const
  return database.jobs.flatMap((job): Violation[] => {
    if (!chargedJobs.has(job.id) && job.state !== 'completed') return []
    if (job.resultBody === null || job.resultDigest === null)
      return [{ invariant, jobId: job.id, detail: 'a charge without a stored result' }]
    if (sha256Hex(job.resultBody) !== job.resultDigest)
      return [{ invariant, jobId: job.id, detail: 'the stored result does not match its digest' }]
    return []
  })
}

/** Checks that nothing is stuck: jobs and clients are finished, and all account nonces were used without a gap. */
function checkLiveness({ database, chain, clients }: Ledgers): Violation[] {
  const unfinished = new Set(['accepted', 'generating', 'generated', 'settling'])
  const stuck = database.jobs
    .filter(({ state }) => unfinished.has(state))
    .map(({ id, state }): Violation => ({ invariant: 'liveness', jobId: id, detail: `the job is still ${state}` }))
  const waiting = clients.calls
    .filter(({ outcome }) => outcome === null || outcome === 'gave_up')
    .map(({ callId, idempotencyKey }): Violation => {
      const jobId = database.jobs.find((job) => job.idempotencyKey === idempotencyKey)?.id ?? null
      return { invariant: 'liveness', jobId, detail: `the client of ${callId} has no terminal answer` }
    })
  const gaps = chain.keys.flatMap(({ address, minedCount, pendingCount }): Violation[] => {
    const taken = database.nextAccountNonces[address] ?? 0
    const problem =
      (minedCount !== pendingCount && `${pendingCount - minedCount} transactions are not mined yet`) ||
      (minedCount !== taken && `nonces up to ${taken} were taken and ${minedCount} transactions mined`)
    return problem ? [{ invariant: 'nonce-gap', jobId: null, detail: `${address}: ${problem}` }] : []
  })
  return [...stuck, ...waiting, ...gaps]
}
