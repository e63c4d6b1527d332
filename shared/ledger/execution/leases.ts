import type { LeasedJob, SealedResult, Written } from '#shared/jobs/job.ts'
import { parseEffectiveRequest } from '#shared/jobs/parse-effective-request.ts'
import { storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import type { RequestOrigin } from '#shared/runtime/tracing.ts'
import { columnsOf, listed } from '../listed.ts'
import { LOCK_JOBS, NAME_SUFFIX } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { readFirst, readRows, writeFenced } from '../read-rows.ts'
import { type LockedRows, shareStatement } from '../share-statements.ts'
import { COMMITTED_EARLY } from '../without-waiting.ts'

/** The share of a lease that a worker still gets to store its result when the lease expired during a provider call. */
const GRACE_SHARE = 1 / 3
/** The longest delay of a deferred job, without jitter: the end of an outage is noticed within this time. */
const LONGEST_DELAY_MS = 30_000

/** A job and its payment, as columns. */
export type LeasedJobRow = Omit<LeasedJob, 'effectiveRequest' | 'authorization' | 'origin' | 'sealed' | 'settlement'> &
  RequestOrigin & {
    readonly effectiveRequest: string | null
    readonly signed: unknown
  } & { readonly [Member in keyof SealedResult]: SealedResult[Member] | null }

/**
 * A longer effective request is read once there is memory for it; all jobs that wait for memory are leased.
 * `octet_length` does not read the text itself.
 */
const LONG_REQUEST_BYTES = 32 * 1024

/** The columns of `LeasedJobRow` over `jobs` and `authorizations`, without what only a lease knows. */
export const LEASED_JOB = `jobs.id, jobs.operation, jobs.public_model AS "publicModel",
  jobs.request_digest AS "requestDigest", jobs.quoted_maximum AS "quotedMaximum",
  jobs.catalog_version AS "catalogVersion", jobs.terms, jobs.authorization_id AS "authorizationId",
  jobs.staged_upload_id AS "stagedUploadId", jobs.accepted_at AS "acceptedAt", jobs.state, jobs.fence,
  jobs.is_new_payer AS "isNewPayer", jobs.request_id AS "requestId", jobs.traceparent, jobs.usage,
  jobs.charge_amount AS "chargeAmount", jobs.result_digest AS "resultDigest",
  coalesce(octet_length(jobs.effective_request), 0) AS "requestBytes",
  CASE WHEN octet_length(jobs.effective_request) <= ${LONG_REQUEST_BYTES} THEN jobs.effective_request END
    AS "effectiveRequest",
  CASE WHEN jobs.state IN ('generated', 'settling') THEN (
    SELECT max(media.expires_at) FROM media WHERE media.job_id = jobs.id) END AS "mediaExpireAt",
  authorizations.signed`

export function leasedJobFromRow(row: LeasedJobRow): LeasedJob {
  const { signed, effectiveRequest, requestId, traceparent, usage, chargeAmount, resultDigest, ...job } = row
  const isSealed = usage !== null && chargeAmount !== null && resultDigest !== null
  return {
    ...job,
    effectiveRequest: effectiveRequest === null ? null : parseEffectiveRequest(effectiveRequest),
    authorization: storedAuthorizationSchema.parse(signed),
    origin: { requestId, traceparent },
    sealed: isSealed ? { usage, chargeAmount, resultDigest } : null,
    settlement: null,
  }
}

interface LeaseRequest {
  readonly jobId: string
  readonly leaseMs: number
}

const TAKE_LEASE = `fence = fence + 1, lease_expires_at = now() + make_interval(secs => lease_ms / 1000.0), orphaned_at = NULL`
const IS_FREE = `state IN ('accepted', 'generating', 'generated', 'settling')
  AND (lease_expires_at IS NULL OR lease_expires_at <= now()) AND run_after <= now()
  AND (state <> 'generating' OR orphaned_at IS NOT NULL)`
const LEASED = `${LEASED_JOB},
  extract(epoch FROM clock_timestamp() - run_after)::float8 * 1000 AS "waitedMs",
  coalesce(extract(epoch FROM now() - deferred_since), 0)::float8 * 1000 AS "deferredMs",
  coalesce(extract(epoch FROM now() - payment_blocked_since), 0)::float8 * 1000 AS "paymentBlockedMs"`

/**
 * Creates a function that takes the lease of an unfinished job without one and raises its fence, by PostgreSQL's clock.
 * Jobs that are delivered at the same time are leased in one statement. Returns `null` when the job is finished, leased
 * by another worker, or not due yet.
 */
export function createJobLeaser(sql: Sql): (jobId: string, leaseMs: number) => Promise<LeasedJob | null> {
  const lease = shareStatement<LeaseRequest, LeasedJob | null>({
    keyOf: ({ jobId }) => jobId,
    run: (requests, lockedRows) => leaseJobs(sql, requests, lockedRows),
    skipped: async (request) => {
      await startOrphanGrace(sql, request)
      return null
    },
  })
  return (jobId, leaseMs) => lease({ jobId, leaseMs })
}

/**
 * Leases those that are free. All are committed before they are read, so one that cannot be read fails alone. The commit
 * does not wait for the disk: whatever this worker stores later does, and a crash that loses the lease loses that as well.
 */
async function leaseJobs(
  sql: Sql,
  requests: readonly LeaseRequest[],
  lockedRows: LockedRows,
): Promise<ReadonlyMap<string, LeasedJob | Error>> {
  const rows = await readRows<LeasedJobRow>(sql, {
    name: `lease_jobs${NAME_SUFFIX[lockedRows]}`,
    text: `WITH ${COMMITTED_EARLY},
     asked AS (SELECT id, lease_ms FROM ${listed('uuid', 'float8')} AS asked (id, lease_ms), committed_early),
     free AS (
       SELECT asked.id, lease_ms FROM asked CROSS JOIN LATERAL (
         SELECT FROM jobs WHERE jobs.id = asked.id AND ${IS_FREE} ${LOCK_JOBS[lockedRows]}) AS locked)
     UPDATE jobs SET ${TAKE_LEASE} FROM free, authorizations
     WHERE jobs.id = free.id AND authorizations.id = jobs.authorization_id
     RETURNING ${LEASED}`,
    values: columnsOf(requests.map(({ jobId, leaseMs }) => [jobId, leaseMs])),
  })
  return new Map(rows.map((row) => [row.id, leasedOrError(row)]))
}

function leasedOrError(row: LeasedJobRow): LeasedJob | Error {
  try {
    return leasedJobFromRow(row)
  } catch (cause) {
    return new Error(`job ${row.id} cannot be read`, { cause })
  }
}

/**
 * Gives the worker whose lease on a `generating` job expired a grace period. A worker that takes such a job over must
 * fail it; after an outage of the database all renewals are late, and the previous one may be about to store the result.
 */
async function startOrphanGrace(sql: Sql, { jobId, leaseMs }: LeaseRequest): Promise<void> {
  await sql.query({
    name: 'start_orphan_grace',
    text: `UPDATE jobs SET orphaned_at = now(), lease_expires_at = now() + make_interval(secs => $2 / 1000.0)
     WHERE id = $1 AND state = 'generating' AND orphaned_at IS NULL
       AND (lease_expires_at IS NULL OR lease_expires_at <= now())`,
    values: [jobId, leaseMs * GRACE_SHARE],
  })
}

/** Ends this worker's lease; the job may run again immediately. */
export async function releaseJob(sql: Sql, job: LeasedJob): Promise<Written> {
  return await writeFenced(sql, {
    name: 'release_job',
    text: `UPDATE jobs SET lease_expires_at = NULL, enqueued_at = NULL, run_after = now()
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generating', 'generated', 'settling')`,
    values: [job.id, job.fence.toString()],
  })
}

/**
 * Ends this worker's lease; the job may run again after `delayMs`, doubled for each deferral since its last move, up to
 * a limit. Up to a quarter is added at random, so that jobs of one outage do not return together. `isPaymentBlocked`: only
 * the payment itself prevents its settlement.
 */
export async function deferJob(sql: Sql, job: LeasedJob, delayMs: number, isPaymentBlocked = false): Promise<Written> {
  return await writeFenced(sql, {
    name: 'defer_job',
    text: `UPDATE jobs SET lease_expires_at = NULL, enqueued_at = NULL,
       deferred_since = coalesce(deferred_since, now()), deferrals = deferrals + 1,
       payment_blocked_since = CASE WHEN $5 THEN coalesce(payment_blocked_since, now()) END,
       run_after = now() + make_interval(secs => (1 + random() / 4) / 1000
         * LEAST($3::float8 * power(2, LEAST(deferrals, 16)), GREATEST($3::float8, $4::float8)))
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generated', 'settling')`,
    values: [job.id, job.fence.toString(), delayMs, LONGEST_DELAY_MS, isPaymentBlocked],
  })
}

/** Makes a job due that this worker deferred, and marks it as enqueued: the caller enqueues it next. */
export async function wakeJob(sql: Sql, job: LeasedJob): Promise<Written> {
  return await writeFenced(sql, {
    name: 'wake_job',
    text: `UPDATE jobs SET enqueued_at = now(), run_after = LEAST(run_after, now())
     WHERE id = $1 AND fence = $2 AND lease_expires_at IS NULL AND state IN ('accepted', 'generated', 'settling')`,
    values: [job.id, job.fence.toString()],
  })
}

/**
 * Extends the leases that this worker still has, and returns the others: of a job that it leased twice, one may be lost and
 * the other not. One statement, since a worker may have thousands of jobs that wait for the chain. A row that is locked is left for the next time: it is
 * being moved, and statements that lock several rows in different orders would block each other.
 */
export async function renewLeases(
  sql: Sql,
  jobs: readonly LeasedJob[],
  leaseMs: number,
): Promise<readonly LeasedJob[]> {
  const { rows } = await sql.query<{ position: number }>({
    name: 'renew_leases',
    text: `WITH mine AS (
       SELECT id, fence, position FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS mine (id, fence, position)),
     held AS (
       SELECT jobs.id FROM jobs JOIN mine USING (id, fence)
       WHERE lease_expires_at IS NOT NULL AND state IN ('accepted', 'generating', 'generated', 'settling')
       FOR NO KEY UPDATE OF jobs SKIP LOCKED),
     renewed AS (
       UPDATE jobs SET lease_expires_at = now() + make_interval(secs => $3 / 1000.0), orphaned_at = NULL
       FROM held WHERE jobs.id = held.id)
     SELECT position::int FROM mine WHERE NOT EXISTS (
       SELECT FROM jobs WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND lease_expires_at IS NOT NULL
         AND state IN ('accepted', 'generating', 'generated', 'settling'))`,
    values: [jobs.map(({ id }) => id), jobs.map(({ fence }) => fence.toString()), leaseMs],
  })
  const lost = new Set(rows.map(({ position }) => position - 1))
  return jobs.filter((_, index) => lost.has(index))
}

/**
 * Ends this worker's lease so that another worker can continue, and marks the job as enqueued: the caller enqueues it
 * next. Raises the fence, so that later writes of this worker are stale. Returns the job's current state, or `null`
 * when it cannot be handed over: the lease is lost, or a provider call is in progress, whose outcome no other worker
 * could learn.
 */
export async function handOverJob(sql: Sql, job: LeasedJob): Promise<LeasedJob | null> {
  const moved = await readFirst<Pick<LeasedJob, 'state' | 'fence'>>(sql, {
    name: 'hand_over_job',
    text: `UPDATE jobs SET fence = fence + 1, lease_expires_at = NULL, enqueued_at = now(), run_after = now()
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generated', 'settling')
     RETURNING state, fence`,
    values: [job.id, job.fence.toString()],
  })
  return moved ? { ...job, ...moved } : null
}
