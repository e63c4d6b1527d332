import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import type { Sql } from '../pool.ts'
import { CLAIMED_JOB, type ClaimedJobRow, claimedJobFromRow } from './job-row.ts'

/** Of the lease: how long the worker of an expired provider call may still store what it holds. */
const GRACE_SHARE = 1 / 3

/**
 * Takes the lease of an unfinished job that nobody holds and raises its fence, by PostgreSQL's clock. `null` when the job
 * is finished, held by another worker, or not due yet.
 *
 * Whoever takes over a job that is `generating` must fail it, so its worker gets a grace first: after an outage of this
 * database everyone is late alike, and he may be about to store the result.
 */
export async function claimJob(sql: Sql, jobId: string, leaseMs: number): Promise<ClaimedJob | null> {
  const { rows } = await sql.query<ClaimedJobRow>(
    `UPDATE jobs SET fence = fence + 1, lease_expires_at = now() + make_interval(secs => $2 / 1000.0), orphaned_at = NULL
     FROM authorizations
     WHERE jobs.id = $1 AND authorizations.id = jobs.authorization_id
       AND state IN ('accepted', 'generating', 'generated', 'settling')
       AND (lease_expires_at IS NULL OR lease_expires_at <= now()) AND run_after <= now()
       AND (state <> 'generating' OR orphaned_at IS NOT NULL)
     RETURNING ${CLAIMED_JOB},
       extract(epoch FROM clock_timestamp() - run_after)::float8 * 1000 AS waited_ms`,
    [jobId, leaseMs],
  )
  if (rows[0]) return claimedJobFromRow(rows[0])
  await sql.query(
    `UPDATE jobs SET orphaned_at = now(), lease_expires_at = now() + make_interval(secs => $2 / 1000.0)
     WHERE id = $1 AND state = 'generating' AND orphaned_at IS NULL
       AND (lease_expires_at IS NULL OR lease_expires_at <= now())`,
    [jobId, leaseMs * GRACE_SHARE],
  )
  return null
}

/** Extends a lease that is still this worker's own. */
export async function renewLease(sql: Sql, job: ClaimedJob, leaseMs: number): Promise<Written> {
  const { rowCount } = await sql.query(
    `UPDATE jobs SET lease_expires_at = now() + make_interval(secs => $3 / 1000.0), orphaned_at = NULL
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generating', 'generated', 'settling')`,
    [job.id, job.fence.toString(), leaseMs],
  )
  return rowCount === 1 ? 'written' : 'stale'
}

/** Ends this worker's lease and lets the job run again after `delayMs`. */
export async function releaseJob(sql: Sql, job: ClaimedJob, delayMs: number): Promise<Written> {
  const { rowCount } = await sql.query(
    `UPDATE jobs SET lease_expires_at = NULL, enqueued_at = NULL, run_after = now() + make_interval(secs => $3 / 1000.0)
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generating', 'generated', 'settling')`,
    [job.id, job.fence.toString(), delayMs],
  )
  return rowCount === 1 ? 'written' : 'stale'
}
