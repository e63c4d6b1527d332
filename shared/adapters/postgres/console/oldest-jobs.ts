import type { JobState } from '#shared/jobs/job.ts'
import type { QueueName } from '#shared/jobs/job-queue.ts'
import { operations } from '#shared/operations/registry.ts'
import type { WaitingJob } from '#shared/operators/machinery-store.ts'
import type { Sql } from '../pool.ts'

interface Row {
  readonly id: string
  readonly operation: string
  readonly state: JobState
  readonly public_model: string
  readonly accepted_at: Date
  readonly run_after: Date
  readonly deferred_since: Date | null
  readonly is_running: boolean
}

/** Returns the unfinished jobs of a queue that are due longest. */
export async function readOldestJobs(sql: Sql, queue: QueueName, limit: number): Promise<readonly WaitingJob[]> {
  const states: readonly JobState[] = queue === 'settlement' ? ['generated', 'settling'] : ['accepted', 'generating']
  const ids = operations.filter((operation) => queue === 'settlement' || operation.queue === queue).map(({ id }) => id)
  const { rows } = await sql.query<Row>({
    name: 'read_oldest_jobs',
    text: `SELECT id, operation, state, public_model, accepted_at, run_after, deferred_since,
        lease_expires_at > now() IS TRUE AS is_running
      FROM jobs WHERE state = ANY($1) AND state IN ('accepted', 'generating', 'generated', 'settling')
        AND operation = ANY($2)
      ORDER BY run_after, id LIMIT $3`,
    values: [states, ids, limit],
  })
  return rows.map((row) => ({
    id: row.id,
    operation: row.operation,
    state: row.state,
    publicModel: row.public_model,
    acceptedAt: row.accepted_at,
    dueAt: row.run_after,
    deferredSince: row.deferred_since,
    isRunning: row.is_running,
  }))
}
