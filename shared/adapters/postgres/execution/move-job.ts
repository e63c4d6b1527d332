import type { ClaimedJob, JobState } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'

/** Passes a value along with the statement and gives the name that its text calls it by. */
export type Parameter = (value: unknown) => string

/** What a transition writes beside the job's new state. */
export interface Transition {
  /** Of the job's row: continues the SET list. */
  readonly set?: readonly string[]
  /** Other rows, by common table expressions over `moved`, which holds the job's row, and none when the fence was lost. */
  readonly together?: readonly string[]
}

/**
 * One transition: the job moves to `to` only from an unfinished state that may precede it (a finished job is reopened by its
 * payer alone) and only under the fence of this claim; what is written together with it depends on that. One statement, so
 * one transaction and one way to PostgreSQL and back. Who waits for the job is told at commit when it is finished.
 */
export async function moveJob(
  sql: Sql,
  job: ClaimedJob,
  to: JobState,
  transition: (parameter: Parameter) => Transition = () => ({}),
): Promise<Written> {
  const values: unknown[] = [job.id, job.fence.toString(), to, statesBefore(to).filter(isUnfinished)]
  const { set = [], together = [] } = transition((value) => `$${values.push(value)}`)
  const moved = `moved AS (
    UPDATE jobs SET ${['state = $3', ...set].join(', ')} WHERE id = $1 AND fence = $2 AND state = ANY($4) RETURNING id)`
  const told = isUnfinished(to) ? '1' : "pg_notify('farebox_outcomes', id::text)"
  const { rowCount } = await sql.query(
    `WITH ${[moved, ...together].join(',\n')}
     SELECT ${told} FROM moved`,
    values,
  )
  return rowCount === 1 ? 'written' : 'stale'
}

/** Thrown inside a transaction to undo the rest of it; never leaves this folder. */
class StaleFence extends Error {}

/** The guard of a write that leaves the job in its state: it is there, under this claim's fence, until the transaction ends. */
export async function holdJob(sql: Sql, job: ClaimedJob, state: JobState): Promise<void> {
  const { rowCount } = await sql.query('SELECT 1 FROM jobs WHERE id = $1 AND fence = $2 AND state = $3 FOR UPDATE', [
    job.id,
    job.fence.toString(),
    state,
  ])
  if (rowCount !== 1) throw new StaleFence(`job ${job.id} is no longer this worker's while ${state}`)
}

/** Runs fenced writes as one transaction; a lost fence rolls all of it back and is reported as `stale`. */
export async function unlessStale(pool: Pool, work: (sql: Sql) => Promise<void>): Promise<Written> {
  try {
    await inTransaction(pool, work)
    return 'written'
  } catch (error) {
    if (error instanceof StaleFence) return 'stale'
    throw error
  }
}
