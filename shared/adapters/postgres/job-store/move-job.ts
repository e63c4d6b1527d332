import type { ClaimedJob, JobState } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'

/** Thrown inside a transition to undo the rest of it; never leaves this folder. */
class StaleFence extends Error {}

/**
 * The guard that every transition shares: the job moves to `to` only from an unfinished state that may precede it (a
 * finished job is reopened by its payer alone) and only under the fence of this claim. `assignments` continue the SET
 * list with parameters from $5 on.
 */
export async function moveJob(
  sql: Sql,
  job: ClaimedJob,
  to: JobState,
  assignments = '',
  values: readonly unknown[] = [],
): Promise<void> {
  const { rowCount } = await sql.query(
    `UPDATE jobs SET state = $3 ${assignments} WHERE id = $1 AND fence = $2 AND state = ANY($4)`,
    [job.id, job.fence.toString(), to, statesBefore(to).filter(isUnfinished), ...values],
  )
  if (rowCount !== 1) throw new StaleFence(`job ${job.id} is no longer this worker's to move to ${to}`)
}

/** The guard of a write that leaves the job in its state: it is there, under this claim's fence, until the transaction ends. */
export async function holdJob(sql: Sql, job: ClaimedJob, state: JobState): Promise<void> {
  const { rowCount } = await sql.query('SELECT 1 FROM jobs WHERE id = $1 AND fence = $2 AND state = $3 FOR UPDATE', [
    job.id,
    job.fence.toString(),
    state,
  ])
  if (rowCount !== 1) throw new StaleFence(`job ${job.id} is no longer this worker's while ${state}`)
}

/** Runs one transition as one transaction; a lost fence rolls all of it back and is reported as `stale`. */
export async function asTransition(pool: Pool, work: (sql: Sql) => Promise<void>): Promise<Written> {
  try {
    await inTransaction(pool, work)
    return 'written'
  } catch (error) {
    if (error instanceof StaleFence) return 'stale'
    throw error
  }
}

/** Tells waiting API processes to read the row again. Delivered at commit. */
export async function notifyOutcome(sql: Sql, jobId: string): Promise<void> {
  await sql.query("SELECT pg_notify('farebox_outcomes', $1)", [jobId])
}
