import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { Failure, Written } from '#shared/jobs/job-store.ts'
import type { Sql } from '../pool.ts'
import { erasedUpload } from '../retention/staged-uploads.ts'
import { moveJob } from './move-job.ts'

/**
 * accepted or generating → failed, uncharged. An attempt that is still open ends as `attempt` says. After an ambiguous
 * failure the provider may hold the audio still, so the staged copy stays until its own expiry (specification, States).
 */
export function failJob(
  sql: Sql,
  job: ClaimedJob,
  failure: Failure & { attempt: 'none' | 'failed_definite' | 'failed_ambiguous' },
): Promise<Written> {
  return moveJob(sql, job, 'failed', (parameter) => ({
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'effective_request = NULL',
    ],
    together: [
      // An open attempt is the present authorization's, by which it is indexed.
      `ended AS (
         UPDATE upstream_attempts SET state = ${parameter(failure.attempt === 'none' ? 'failed_ambiguous' : failure.attempt)},
           reason = ${parameter(failure.reason)}, finished_at = now()
         FROM moved WHERE authorization_id = ${parameter(job.authorizationId)} AND state = 'open')`,
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
      ...(failure.attempt === 'failed_ambiguous' ? [] : erasedUpload(job.stagedUploadId, parameter)),
    ],
  }))
}
