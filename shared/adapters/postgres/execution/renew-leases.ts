import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'

/**
 * Extends the leases of jobs that this worker still has, and returns the ids of the others. One statement, since a
 * worker may have thousands of jobs that wait for the chain. A row that is locked is left for the next time: it is
 * being moved, and statements that lock several rows in different orders would block each other.
 */
export async function renewLeases(
  sql: Sql,
  jobs: readonly ClaimedJob[],
  leaseMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'renew_leases',
    text: `WITH mine AS (SELECT id, fence FROM unnest($1::uuid[], $2::bigint[]) AS mine (id, fence)),
     held AS (
       SELECT jobs.id FROM jobs JOIN mine USING (id, fence)
       WHERE lease_expires_at IS NOT NULL AND state IN ('accepted', 'generating', 'generated', 'settling')
       FOR NO KEY UPDATE OF jobs SKIP LOCKED),
     renewed AS (
       UPDATE jobs SET lease_expires_at = now() + make_interval(secs => $3 / 1000.0), orphaned_at = NULL
       FROM held WHERE jobs.id = held.id)
     SELECT mine.id FROM mine WHERE NOT EXISTS (
       SELECT FROM jobs WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND lease_expires_at IS NOT NULL
         AND state IN ('accepted', 'generating', 'generated', 'settling'))`,
    values: [jobs.map(({ id }) => id), jobs.map(({ fence }) => fence.toString()), leaseMs],
  })
  return new Set(rows.map(({ id }) => id))
}
