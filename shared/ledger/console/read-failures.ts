import type { Sql } from '../pool.ts'
import type { Period } from './read-days.ts'

/** Calls that ended without a charge for the same reason. */
export interface FailedCalls {
  readonly code: string
  readonly model: string
  readonly count: number
  /** Those for which no vendor was called. */
  readonly withoutAttempt: number
}

export interface Failures {
  /** Calls that ended in the period, charged or not. */
  readonly ended: number
  readonly failed: number
  readonly withoutAttempt: number
  /** The most frequent ones first. */
  readonly most: readonly FailedCalls[]
}

const MOST_CAUSES = 8

/** Reads the calls that failed in the period by error code and model. */
export async function readFailures(sql: Sql, { from, until }: Period): Promise<Failures> {
  const { rows } = await sql.query<{
    code: string
    model: string
    count: number
    without_attempt: number
    failed: number
    all_without_attempt: number
    completed: number
  }>({
    name: 'read_console_failures',
    text: `WITH causes AS (
         SELECT coalesce(failure_code, 'none') AS code, public_model AS model, count(*)::int AS count,
           count(*) FILTER (WHERE NOT EXISTS (
             SELECT FROM upstream_attempts WHERE upstream_attempts.job_id = jobs.id))::int AS without_attempt
         FROM jobs WHERE state IN ('failed', 'settlement_failed') AND finished_at >= $1 AND finished_at < $2
         GROUP BY 1, 2),
       charged AS (SELECT count(*)::int AS completed FROM jobs
         WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2)
       SELECT code, model, count, without_attempt, completed, (sum(count) OVER ())::int AS failed,
         (sum(without_attempt) OVER ())::int AS all_without_attempt
       FROM charged LEFT JOIN causes ON true ORDER BY count DESC NULLS LAST, code, model LIMIT $3`,
    values: [from, until, MOST_CAUSES],
  })
  const [first] = rows
  const failed = first?.failed ?? 0
  return {
    ended: failed + (first?.completed ?? 0),
    failed,
    withoutAttempt: first?.all_without_attempt ?? 0,
    most:
      failed === 0
        ? []
        : rows.map(({ code, model, count, without_attempt: withoutAttempt }) => ({
            code,
            model,
            count,
            withoutAttempt,
          })),
  }
}
