import type { QueueName } from '#shared/jobs/job-queue.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { operations } from '#shared/operations/registry.ts'
import { HEALTH_WINDOWS, type HealthWindow } from '#shared/operators/health-window.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readUnfinishedTotals } from '../queue-totals.ts'
import { readDeploymentHealth, wasCalled } from './deployment-health.ts'

/** What the console shows about providers and queues. */
export type MachineryStore = ReturnType<typeof createMachineryStore>

/** Creates the store of what the console shows about providers and queues. */
export function createMachineryStore(pool: Pool) {
  return {
    readQueueTotals: async () => (await readUnfinishedTotals(pool)).queues,
    ...bindTo(pool, { readOldestJobs, readDeploymentHealth, readFailures, readIntervals, wasCalled }),
  }
}

/** An unfinished job that has waited longer than others of its queue. */
interface WaitingJob {
  readonly id: string
  readonly operation: string
  readonly state: JobState
  readonly publicModel: string
  readonly acceptedAt: Date
  readonly dueAt: Date
  /** Since when it has been deferred in its state; `null` when it has not. */
  readonly deferredSince: Date | null
  readonly isRunning: boolean
}

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

/** Returns the unfinished jobs of a queue that are due longest, at most `limit`. */
async function readOldestJobs(sql: Sql, queue: QueueName, limit: number): Promise<readonly WaitingJob[]> {
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

/** Failures of one class: of the same certainty, for the same reason. */
interface FailureClass {
  readonly state: 'failed_definite' | 'failed_empty' | 'failed_ambiguous'
  readonly reason: string
  readonly count: number
  readonly lastAt: Date
  /** The job of the latest one. */
  readonly lastJobId: string
}

/** A part of a window. */
export interface HealthInterval {
  readonly startedAt: Date
  readonly succeeded: number
  readonly failed: number
  readonly medianMs: number | null
  readonly p95Ms: number | null
}

/** More than the list of all deployments looks at, since this is one of them. */
const MAXIMUM_CALLS = 20_000

const MAXIMUM_CLASSES = 50

/** Parts of a window, as points of a chart. */
const INTERVALS = 60

/** Returns the failures of a deployment by class, most frequent first. */
async function readFailures(sql: Sql, name: string, window: HealthWindow): Promise<readonly FailureClass[]> {
  const { rows } = await sql.query<{
    state: FailureClass['state']
    reason: string
    count: number
    last_at: Date
    last_job_id: string
  }>({
    name: 'read_deployment_failures',
    text: `SELECT state, reason, count(*)::int AS count, max(started_at) AS last_at,
        (array_agg(job_id ORDER BY started_at DESC))[1] AS last_job_id
      FROM (SELECT state, coalesce(reason, 'unknown') AS reason, started_at, job_id FROM upstream_attempts
        WHERE deployment = $1 AND started_at >= now() - make_interval(secs => $2)
        ORDER BY started_at DESC LIMIT $3) AS latest
      WHERE state LIKE 'failed%'
      GROUP BY state, reason ORDER BY count(*) DESC, max(started_at) DESC LIMIT $4`,
    values: [name, HEALTH_WINDOWS[window], MAXIMUM_CALLS, MAXIMUM_CLASSES],
  })
  return rows.map(({ state, reason, count, last_at: lastAt, last_job_id: lastJobId }) => ({
    state,
    reason,
    count,
    lastAt,
    lastJobId,
  }))
}

/** Returns the calls of a deployment in equal parts of the window, oldest first. */
async function readIntervals(sql: Sql, name: string, window: HealthWindow): Promise<readonly HealthInterval[]> {
  const { rows } = await sql.query<{
    started_at: Date
    succeeded: number
    failed: number
    median_ms: number | null
    p95_ms: number | null
  }>({
    name: 'read_deployment_intervals',
    text: `SELECT part AS started_at, coalesce(succeeded, 0) AS succeeded, coalesce(failed, 0) AS failed, median_ms, p95_ms
      FROM generate_series(
        date_bin(make_interval(secs => $2::float8 / $3), now() - make_interval(secs => $2), 'epoch'::timestamptz),
        now(), make_interval(secs => $2::float8 / $3)) AS part
      LEFT JOIN (
        SELECT date_bin(make_interval(secs => $2::float8 / $3), started_at, 'epoch'::timestamptz) AS part,
          count(*) FILTER (WHERE state = 'succeeded')::int AS succeeded,
          count(*) FILTER (WHERE state LIKE 'failed%')::int AS failed,
          percentile_cont(0.5) WITHIN GROUP (ORDER BY milliseconds) FILTER (WHERE state = 'succeeded') AS median_ms,
          percentile_cont(0.95) WITHIN GROUP (ORDER BY milliseconds) FILTER (WHERE state = 'succeeded') AS p95_ms
        FROM (SELECT state, started_at, extract(epoch FROM finished_at - started_at)::float8 * 1000 AS milliseconds
          FROM upstream_attempts
          WHERE deployment = $1 AND started_at >= now() - make_interval(secs => $2)
          ORDER BY started_at DESC LIMIT $4) AS latest
        GROUP BY 1) AS calls USING (part)
      ORDER BY part`,
    values: [name, HEALTH_WINDOWS[window], INTERVALS, MAXIMUM_CALLS],
  })
  return rows.map(({ started_at: startedAt, succeeded, failed, median_ms: medianMs, p95_ms: p95Ms }) => ({
    startedAt,
    succeeded,
    failed,
    medianMs,
    p95Ms,
  }))
}
