import type { DueJob } from '#shared/jobs/execution-store.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { Sql } from '../pool.ts'

/**
 * A job enqueued this long ago and still not claimed was lost by the queue, or waits in a long one, where a duplicate
 * is harmless.
 */
const ENQUEUE_AGAIN_AFTER_SECONDS = 10

/**
 * Returns the unfinished jobs in `states` that are due, not leased and not enqueued recently, and marks them as
 * enqueued. A job whose lease expired is due immediately: its worker is gone.
 */
export async function takeDueJobs(sql: Sql, states: readonly JobState[], limit: number): Promise<readonly DueJob[]> {
  const { rows } = await sql.query<DueJob>({
    name: 'take_due_jobs',
    text: `UPDATE jobs SET enqueued_at = now() WHERE id IN (
       SELECT id FROM jobs
       WHERE state = ANY($1) AND run_after <= now()
         AND (lease_expires_at IS NULL OR lease_expires_at <= now())
         AND (enqueued_at IS NULL OR enqueued_at < lease_expires_at
              OR enqueued_at <= now() - make_interval(secs => $3))
       ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id, operation, state`,
    values: [states, limit, ENQUEUE_AGAIN_AFTER_SECONDS],
  })
  return rows
}
