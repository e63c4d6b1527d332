import {
  type FailureClass,
  HEALTH_WINDOWS,
  type HealthInterval,
  type HealthWindow,
} from '#shared/operators/machinery-store.ts'
import type { Sql } from '../pool.ts'

/** More than the list of all deployments looks at, since this is one of them. */
const MAXIMUM_CALLS = 20_000

const MAXIMUM_CLASSES = 50

/** Parts of a window, as points of a chart. */
const INTERVALS = 60

/** Returns the failures of a deployment by class, most frequent first. */
export async function readFailures(sql: Sql, name: string, window: HealthWindow): Promise<readonly FailureClass[]> {
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
export async function readIntervals(sql: Sql, name: string, window: HealthWindow): Promise<readonly HealthInterval[]> {
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
