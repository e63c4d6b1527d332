import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'

/**
 * Ends this worker's lease because another worker is to go on, and marks the job enqueued: the caller enqueues it next. The
 * fence is raised, so that nothing this worker still does counts. Returns the job as it stands, or `null` when there is nothing
 * to hand over: the claim is lost, or a provider call is under way, whose outcome nobody else could learn.
 */
export async function handOverJob(sql: Sql, job: ClaimedJob): Promise<ClaimedJob | null> {
  const { rows } = await sql.query<{ state: ClaimedJob['state']; fence: string }>(
    `UPDATE jobs SET fence = fence + 1, lease_expires_at = NULL, enqueued_at = now(), run_after = now()
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generated', 'settling')
     RETURNING state, fence`,
    [job.id, job.fence.toString()],
  )
  return rows[0] ? { ...job, state: rows[0].state, fence: BigInt(rows[0].fence) } : null
}
