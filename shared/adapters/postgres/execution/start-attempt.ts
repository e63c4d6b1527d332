import { randomUUID } from 'node:crypto'
import type { ClaimedJob, Written } from '#shared/jobs/job.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'

/**
 * Moves accepted → generating, or generating → generating with the next deployment. The attempt's row is committed
 * before the provider is called, so a crash cannot hide a call.
 */
export async function startAttempt(
  sql: Sql,
  job: ClaimedJob,
  deployment: string,
  failed: { attemptId: string; reason: string } | null,
): Promise<{ written: Written; attemptId: string }> {
  const attemptId = randomUUID()
  const written = await moveJob(sql, job, 'generating', (parameter) => {
    const started = `started AS (
      INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, state)
      SELECT ${parameter(attemptId)}::uuid, id, ${parameter(job.authorizationId)}::uuid, ${parameter(deployment)}, 'open'
      FROM moved`
    if (!failed) return { name: 'start_attempt', together: [`${started})`] }
    const ended = `ended AS (
      UPDATE upstream_attempts SET state = 'failed_definite', reason = ${parameter(failed.reason)}, finished_at = now()
      FROM moved WHERE upstream_attempts.id = ${parameter(failed.attemptId)} RETURNING upstream_attempts.id)`
    // An authorization may have only one attempt that has not failed, so the failed one must end first.
    return { name: 'start_next_attempt', together: [ended, `${started} WHERE EXISTS (SELECT FROM ended))`] }
  })
  return { written, attemptId }
}
