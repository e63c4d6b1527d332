import { countBy } from './check-charges.ts'
import type { AttemptEntry, CallRecord, JobEntry, Ledgers, UpstreamLedgerCall, Violation } from './ledgers.ts'

/** A call may be under way when payers take their money away; the check before it was right at its time. Ample, for the slowest machine. */
const UNDER_WAY_MS = 20_000

/**
 * I3: every call of the provider was recorded before it was made, for a job that a payment of its own was claimed for; and a
 * payment buys at most one call that may have been billed.
 */
export function checkProviderCalls({ upstream, database, clients }: Ledgers): Violation[] {
  const callOf = new Map(clients.calls.map((call) => [call.marker, call]))
  const jobOf = new Map(database.jobs.map((job) => [job.idempotencyKey, job]))
  const attemptsOf = Map.groupBy(database.attempts, ({ jobId }) => jobId)
  const unknown = upstream
    .filter(({ marker, started }) => (marker === null ? started : !callOf.has(marker)))
    .map(({ id, route }): Violation => ({ invariant: 'I3', jobId: null, detail: `call ${id} of ${route} is nobody’s` }))
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
  // Each call must find more attempts begun than calls made before it: none hides behind another's row.
  const unrecorded = made.find(
    ({ arrivedAt }, index) => attempts.filter(({ startedAt }) => startedAt <= arrivedAt).length <= index,
  )
  if (unrecorded)
    violations.push({ invariant, jobId, detail: `call ${unrecorded.id} was made without an attempt’s row before it` })
  const billable = made.filter(mayBeBilled).length
  const paid = new Set(attempts.filter(isNotDefinite).map(({ authorizationId }) => authorizationId)).size
  // The vendor may have billed what was empty as well; its payment is used up by it.
  const empty = attempts.filter(({ isEmptyAnswer }) => isEmptyAnswer).length
  if (billable > paid + empty)
    violations.push({ invariant, jobId, detail: `${billable} calls that may be billed for ${paid} payments` })
  const unpayable = made.find(({ arrivedAt }) => arrivedAt > (call.unpayableSince ?? Infinity) + UNDER_WAY_MS)
  if (unpayable)
    violations.push({ invariant, jobId, detail: `call ${unpayable.id} was made when nothing could pay for it` })
  return violations
}

/** Work was begun and the vendor has not said that it refused: a failure's status may be definite by its documentation. */
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
    .map(
      ({ jobId }): Violation => ({ invariant: 'I3', jobId, detail: 'one payment for two attempts that may be billed' }),
    )
  const unfinished = new Set(['accepted', 'generating', 'generated', 'settling'])
  const states = new Map(jobs.map(({ id, state }) => [id, state]))
  const forgotten = attempts
    .filter(({ jobId, state }) => state === 'open' && !unfinished.has(states.get(jobId) ?? ''))
    .map(({ jobId }): Violation => ({ invariant: 'I3', jobId, detail: 'an attempt is open although its job ended' }))
  return [...repeated, ...forgotten]
}
