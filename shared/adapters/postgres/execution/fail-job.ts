import type { ClaimedJob, Failure, Written } from '#shared/jobs/job.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { eraseUpload } from '../retention/staged-uploads.ts'

/**
 * Moves accepted or generating → failed, uncharged. An open attempt ends in the state `attempt`. After an ambiguous
 * failure the provider may still be working on the audio, so the staged upload stays until it expires.
 */
export function failJob(
  sql: Sql,
  job: ClaimedJob,
  failure: Failure & { attempt: 'none' | 'failed_definite' | 'failed_ambiguous' },
): Promise<Written> {
  const erasesUpload = failure.attempt !== 'failed_ambiguous' && job.stagedUploadId !== null
  return moveJob(sql, job, 'failed', (parameter) => ({
    name: erasesUpload ? 'fail_job_erasing_upload' : 'fail_job',
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'effective_request = NULL',
    ],
    together: [
      // An open attempt belongs to the current authorization, which the index covers.
      `ended AS (
         UPDATE upstream_attempts SET state = ${parameter(failure.attempt === 'none' ? 'failed_ambiguous' : failure.attempt)},
           reason = ${parameter(failure.reason)}, finished_at = now()
         FROM moved WHERE authorization_id = ${parameter(job.authorizationId)} AND state = 'open')`,
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
      ...(erasesUpload ? eraseUpload(job.stagedUploadId, parameter) : []),
    ],
  }))
}
