import { countBy } from './check-charges.ts'
import type { AttemptEntry, CallRecord, JobEntry, Ledgers, UpstreamLedgerCall, Violation } from './ledgers.ts'

/**
 * Between the check of a payment and the provider call, the payer may withdraw the money. Ample, for the slowest
 * machine.
 */
const UNDER_WAY_MS = 20_000

/**
 * Checks I3: every provider call was recorded before it was made, for a job with a claimed payment, and a payment buys
 * at most one call that may have been billed.
 */
export function checkProviderCalls({ upstream, database, clients }: Ledgers): Violation[] {
  const callOf = new Map(clients.calls.map((call) => [call.marker, call]))
  const jobOf = new Map(database.jobs.map((job) => [job.idempotencyKey, job]))
  const attemptsOf = Map.groupBy(database.attempts, ({ jobId }) => jobId)
  const unknown = upstream
    .filter(({ marker, started }) => (marker === null ? started : !callOf.has(marker)))
    .map(({ id, route }): Violation => ({
      invariant: 'I3',
      jobId: null,
      detail: `call ${id} of ${route} belongs to no call`,
    }))
  const byMarker = Map.groupBy(upstream, ({ marker }) => marker)
  return [
    ...unknown,
    ...clients.calls.flatMap((call) => {
      const made = (byMarker.get(call.marker) ?? []).toSorted((one, other) => one.arrivedAt - other.arrivedAt)
      return made.length === 0 ? [] : checkCallsOf(call, made, jobOf.get(call.idempotencyKey), attemptsOf)
    }),
    ...checkAttempts(database.attempts, database.jobs),
  ]
}

function checkCallsOf(
  call: CallRecord,
  made: readonly UpstreamLedgerCall[],
  job: JobEntry | undefined,
  attemptsOf: ReadonlyMap<string, readonly AttemptEntry[]>,
): Violation[] {
  const invariant = 'I3' as const
  if (!job) return [{ invariant, jobId: null, detail: `the provider was called for ${call.callId}, which has no job` }]
  const jobId = job.id
  const attempts = attemptsOf.get(jobId) ?? []
  const violations: Violation[] = []
  // At each call, more attempts must have been recorded than calls made, so that no call relies on another's row.
  const unrecorded = made.find(
    ({ arrivedAt }, index) => attempts.filter(({ startedAt }) => startedAt <= arrivedAt).length <= index,
  )
  if (unrecorded)
    violations.push({ invariant, jobId, detail: `call ${unrecorded.id} was made before its attempt was recorded` })
  const billable = made.filter(mayBeBilled).length
  const paid = new Set(attempts.filter(isNotDefinite).map(({ authorizationId }) => authorizationId)).size
  if (billable > paid)
    violations.push({ invariant, jobId, detail: `${billable} calls that may be billed for ${paid} payments` })
  const unpayable = made.find(({ arrivedAt }) => arrivedAt > (call.unpayableSince ?? Infinity) + UNDER_WAY_MS)
  if (unpayable)
    violations.push({ invariant, jobId, detail: `call ${unpayable.id} was made when no payment could be settled` })
  return violations
}

/** Returns whether the vendor may bill the call: it began to work and did not answer with a definite failure. */
function mayBeBilled({ started, status }: UpstreamLedgerCall): boolean {
  return started && (status === null || status < 400)
}

function isNotDefinite({ state }: AttemptEntry): boolean {
  return state !== 'failed_definite'
}

function checkAttempts(attempts: readonly AttemptEntry[], jobs: readonly JobEntry[]): Violation[] {
  const open = countBy(attempts.filter(isNotDefinite).map(({ authorizationId }) => authorizationId))
  const repeated = attempts
    .filter((attempt) => isNotDefinite(attempt) && (open.get(attempt.authorizationId) ?? 0) > 1)
    .map(({ jobId }): Violation => ({
      invariant: 'I3',
      jobId,
      detail: 'one payment for two attempts that may be billed',
    }))
  const unfinished = new Set(['accepted', 'generating', 'generated', 'settling'])
  const states = new Map(jobs.map(({ id, state }) => [id, state]))
  const forgotten = attempts
    .filter(({ jobId, state }) => state === 'open' && !unfinished.has(states.get(jobId) ?? ''))
    .map(({ jobId }): Violation => ({
      invariant: 'I3',
      jobId,
      detail: 'an attempt is open although its job has ended',
    }))
  return [...repeated, ...forgotten]
}
