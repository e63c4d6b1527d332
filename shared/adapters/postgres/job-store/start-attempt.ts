import { randomUUID } from 'node:crypto'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import type { Pool } from '../pool.ts'
import { asTransition, moveJob } from './move-job.ts'

/**
 * accepted → generating, or generating again with the next deployment. The attempt's row exists before the provider is
 * called, so a crash cannot hide a call.
 */
export async function startAttempt(
  pool: Pool,
  job: ClaimedJob,
  deployment: string,
  failed: { attemptId: string; reason: string } | null,
): Promise<{ written: Written; attemptId: string }> {
  const attemptId = randomUUID()
  const written = await asTransition(pool, async (sql) => {
    await moveJob(sql, job, 'generating')
    if (failed)
      await sql.query(
        `UPDATE upstream_attempts SET state = 'failed_definite', reason = $2, finished_at = now() WHERE id = $1`,
        [failed.attemptId, failed.reason],
      )
    await sql.query(
      `INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, state) VALUES ($1, $2, $3, $4, 'open')`,
      [attemptId, job.id, job.authorizationId, deployment],
    )
  })
  return { written, attemptId }
}
