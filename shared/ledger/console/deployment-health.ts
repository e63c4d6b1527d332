import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { HEALTH_WINDOWS, type HealthWindow } from '#shared/operators/health-window.ts'
import type { Sql } from '../pool.ts'

/** What the calls to a deployment within a window came to. Of very many calls only the latest count. */
export interface DeploymentHealth {
  readonly name: string
  readonly calls: number
  readonly open: number
  readonly succeeded: number
  readonly failedDefinite: number
  readonly failedEmpty: number
  readonly failedAmbiguous: number
  /** Durations of successful calls; `null` without one. */
  readonly medianMs: number | null
  readonly p95Ms: number | null
  readonly lastFailedAt: Date | null
  /** Whether there were more calls than were looked at. */
  readonly isCut: boolean
  /** Work that nobody was charged for, at most, within the window. */
  readonly absorbed: AtomicAmount
}

/** Of each deployment: enough for its health, and few enough that a page is quick under any load. */
const MAXIMUM_CALLS = 5000

interface Row {
  readonly name: string
  readonly calls: number
  readonly open: number
  readonly succeeded: number
  readonly failed_definite: number
  readonly failed_empty: number
  readonly failed_ambiguous: number
  readonly median_ms: number | null
  readonly p95_ms: number | null
  readonly last_failed_at: Date | null
  readonly absorbed: string
}

/** Returns what the latest calls of each deployment within the window came to. */
export async function readDeploymentHealth(
  sql: Sql,
  names: readonly string[],
  window: HealthWindow,
): Promise<ReadonlyMap<string, DeploymentHealth>> {
  const { rows } = await sql.query<Row>({
    name: 'read_deployment_health',
    text: `WITH absorbed AS (
        SELECT deployment, sum(amount) AS total FROM uncharged_work
        WHERE created_at >= now() - make_interval(secs => $2) AND deployment = ANY($1) GROUP BY deployment)
      SELECT names.name, calls, open, succeeded, failed_definite, failed_empty, failed_ambiguous, median_ms, p95_ms,
        last_failed_at, coalesce(absorbed.total, 0) AS absorbed
      FROM unnest($1::text[]) AS names (name)
      LEFT JOIN absorbed ON absorbed.deployment = names.name
      CROSS JOIN LATERAL (
        SELECT count(*)::int AS calls,
          count(*) FILTER (WHERE state = 'open')::int AS open,
          count(*) FILTER (WHERE state = 'succeeded')::int AS succeeded,
          count(*) FILTER (WHERE state = 'failed_definite')::int AS failed_definite,
          count(*) FILTER (WHERE state = 'failed_empty')::int AS failed_empty,
          count(*) FILTER (WHERE state = 'failed_ambiguous')::int AS failed_ambiguous,
          percentile_cont(0.5) WITHIN GROUP (ORDER BY milliseconds) FILTER (WHERE state = 'succeeded') AS median_ms,
          percentile_cont(0.95) WITHIN GROUP (ORDER BY milliseconds) FILTER (WHERE state = 'succeeded') AS p95_ms,
          max(finished_at) FILTER (WHERE state LIKE 'failed%') AS last_failed_at
        FROM (SELECT state, finished_at, extract(epoch FROM finished_at - started_at)::float8 * 1000 AS milliseconds
          FROM upstream_attempts
          WHERE deployment = names.name AND started_at >= now() - make_interval(secs => $2)
          ORDER BY started_at DESC LIMIT $3) AS latest) AS health`,
    values: [names, HEALTH_WINDOWS[window], MAXIMUM_CALLS],
  })
  return new Map(rows.map((row) => [row.name, healthOf(row)]))
}

function healthOf(row: Row): DeploymentHealth {
  return {
    name: row.name,
    calls: row.calls,
    open: row.open,
    succeeded: row.succeeded,
    failedDefinite: row.failed_definite,
    failedEmpty: row.failed_empty,
    failedAmbiguous: row.failed_ambiguous,
    medianMs: row.median_ms,
    p95Ms: row.p95_ms,
    lastFailedAt: row.last_failed_at,
    isCut: row.calls >= MAXIMUM_CALLS,
    absorbed: atomicAmount(BigInt(row.absorbed)),
  }
}

/** Returns whether a call to the deployment was ever recorded. */
export async function wasCalled(sql: Sql, name: string): Promise<boolean> {
  const { rows } = await sql.query({
    name: 'was_deployment_called',
    // In its index's order: without one, PostgreSQL reads the whole table for a name that it has not seen.
    text: 'SELECT 1 FROM upstream_attempts WHERE deployment = $1 ORDER BY started_at DESC LIMIT 1',
    values: [name],
  })
  return rows.length > 0
}
