import type { JobFailure } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob, Written } from '#shared/jobs/job.ts'
import { type UnchargedWork, unchargedWorkOf } from '#shared/jobs/uncharged-work.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { eraseUpload } from '../retention/staged-uploads.ts'
import { insertUnchargedWork } from '../uncharged-work.ts'

/**
 * Moves accepted or generating → failed, uncharged, and writes its uncharged work. An open attempt ends in the state
 * `attempt`. After an ambiguous failure the provider may still be working on the audio, so the staged upload stays
 * until it expires.
 */
export function failJob(sql: Sql, job: ClaimedJob, failure: JobFailure): Promise<Written> {
  const erasesUpload = failure.attempt !== 'failed_ambiguous' && job.stagedUploadId !== null
  const work = unchargedWorkOf(job, failure)
  return moveJob(sql, job, 'failed', (parameter) => ({
    name: statementName(erasesUpload, work),
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
         FROM moved WHERE authorization_id = ${parameter(job.authorizationId)} AND state = 'open' RETURNING deployment)`,
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
      ...(erasesUpload ? eraseUpload(job.stagedUploadId, parameter) : []),
      ...(work ? [insertUnchargedWork(job, work, parameter, '(SELECT deployment FROM ended)')] : []),
    ],
  }))
}

function statementName(erasesUpload: boolean, work: UnchargedWork | null): string {
  return ['fail_job', ...(erasesUpload ? ['erasing_upload'] : []), ...(work ? ['with_work'] : [])].join('_')
}
