import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Failure, Written } from '#shared/jobs/job-store.ts'
import type { Pool } from '../pool.ts'
import { asTransition, moveJob, notifyOutcome } from './move-job.ts'
import { eraseUploadKey } from './staged-uploads.ts'

/**
 * accepted or generating → failed, uncharged. An attempt that is still open ends as `attempt` says. After an ambiguous
 * failure the provider may hold the audio still, so the staged copy stays until its own expiry (specification, States).
 */
export async function failJob(
  pool: Pool,
  job: ClaimedJob,
  failure: Failure & { attempt: 'none' | 'failed_definite' | 'failed_ambiguous' },
): Promise<Written> {
  return await asTransition(pool, async (sql) => {
    await moveJob(
      sql,
      job,
      'failed',
      ', failure_code = $5, failure_reason = $6, finished_at = now(), lease_expires_at = NULL, effective_request = NULL',
      [failure.code, failure.reason],
    )
    // An open attempt is the present authorization's, by which it is indexed.
    await sql.query(
      `UPDATE upstream_attempts SET state = $2, reason = $3, finished_at = now()
       WHERE authorization_id = $1 AND state = 'open'`,
      [job.authorizationId, failure.attempt === 'none' ? 'failed_ambiguous' : failure.attempt, failure.reason],
    )
    await sql.query('UPDATE authorizations SET permit_released_at = now() WHERE id = $1', [job.authorizationId])
    if (failure.attempt !== 'failed_ambiguous') await eraseUploadKey(sql, job.stagedUploadId)
    await notifyOutcome(sql, job.id)
  })
}
