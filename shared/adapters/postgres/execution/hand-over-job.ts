import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'

/**
 * Ends this worker's lease so that another worker can continue, and marks the job as enqueued: the caller enqueues it
 * next. Raises the fence, so that later writes of this worker are stale. Returns the job's current state, or `null`
 * when it cannot be handed over: the claim is lost, or a provider call is in progress, whose outcome no other worker
 * could learn.
 */
export async function handOverJob(sql: Sql, job: ClaimedJob): Promise<ClaimedJob | null> {
  const { rows } = await sql.query<{ state: ClaimedJob['state']; fence: string }>({
    name: 'hand_over_job',
    text: `UPDATE jobs SET fence = fence + 1, lease_expires_at = NULL, enqueued_at = now(), run_after = now()
     WHERE id = $1 AND fence = $2 AND state IN ('accepted', 'generated', 'settling')
     RETURNING state, fence`,
    values: [job.id, job.fence.toString()],
  })
  return rows[0] ? { ...job, state: rows[0].state, fence: BigInt(rows[0].fence) } : null
}
