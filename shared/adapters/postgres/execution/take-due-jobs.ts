import { setTimeout as delay } from 'node:timers/promises'
import type { JobState } from '#shared/jobs/job.ts'
import type { DueJob } from '#shared/jobs/job-store.ts'
import type { Sql } from '../pool.ts'

/** A job that was enqueued this long ago and still is not held was lost by the queue, or waits in a long one: harmless. */
const ENQUEUED_LONG_AGO_SECONDS = 10

/**
 * Unfinished jobs in `states` that are due, held by nobody and not enqueued lately; marks them enqueued. A job whose
 * lease ran out is due at once: whoever held it is gone.
 */
export async function takeDueJobs(sql: Sql, states: readonly JobState[], limit: number): Promise<readonly DueJob[]> {
  const { rows } = await sql.query<DueJob>(
    `UPDATE jobs SET enqueued_at = now() WHERE id IN (
       SELECT id FROM jobs
       WHERE state = ANY($1) AND run_after <= now()
         AND (lease_expires_at IS NULL OR lease_expires_at <= now())
         AND (enqueued_at IS NULL OR enqueued_at < lease_expires_at
              OR enqueued_at <= now() - make_interval(secs => $3))
       ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id, operation, state`,
    [states, limit, ENQUEUED_LONG_AGO_SECONDS],
  )
  return rows
}

/** By then most jobs are held by a worker, and need no mark. */
const MARK_AFTER_MS = 100

/**
 * Remembers which jobs the queue was given, so that the sweeper need not give them again: those of a moment together, and only
 * those that still wait. A job that was taken and put off meanwhile is the sweeper's again.
 */
export function createEnqueuedMarker(sql: Sql): (jobId: string) => Promise<void> {
  let collected: { readonly jobIds: string[]; readonly marked: Promise<void> } | null = null
  const collect = async (jobIds: string[]) => {
    await delay(MARK_AFTER_MS)
    collected = null
    await markEnqueued(sql, jobIds)
  }
  return (jobId) => {
    const jobIds = collected?.jobIds ?? []
    jobIds.push(jobId)
    collected ??= { jobIds, marked: collect(jobIds) }
    return collected.marked
  }
}

async function markEnqueued(sql: Sql, jobIds: readonly string[]): Promise<void> {
  await sql.query(
    `UPDATE jobs SET enqueued_at = now()
     WHERE id = ANY($1) AND state IN ('accepted', 'generated') AND lease_expires_at IS NULL AND run_after <= now()`,
    [jobIds],
  )
}
