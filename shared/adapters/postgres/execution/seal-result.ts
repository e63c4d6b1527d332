import type { ClaimedJob, NewResult, Written } from '#shared/jobs/job.ts'
import type { Media } from '#shared/media/media.ts'
import { moveJob } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { insertMedia } from '../retention/media.ts'
import { eraseUpload } from '../retention/staged-uploads.ts'

/**
 * Moves generating → generated: fixes the result and its charge; the same commit erases the prompt and the staged
 * audio's data key.
 */
export function sealResult(
  sql: Sql,
  job: ClaimedJob,
  attemptId: string,
  { usage, chargeAmount, resultBody, resultDigest }: NewResult,
  media: Media | null,
): Promise<Written> {
  return moveJob(sql, job, 'generated', (parameter) => ({
    name: statementName(media, job.stagedUploadId),
    set: [
      `usage = ${parameter(JSON.stringify(usage))}`,
      `charge_amount = ${parameter(chargeAmount.toString())}`,
      `result_body = ${parameter(resultBody)}`,
      `result_digest = ${parameter(resultDigest)}`,
      'effective_request = NULL',
    ],
    together: [
      `succeeded AS (
         UPDATE upstream_attempts SET state = 'succeeded', finished_at = now()
         FROM moved WHERE upstream_attempts.id = ${parameter(attemptId)})`,
      ...(media ? [insertMedia(media, parameter)] : []),
      ...eraseUpload(job.stagedUploadId, parameter),
    ],
  }))
}

function statementName(media: Media | null, stagedUploadId: string | null): string {
  return ['seal_result', ...(media ? ['with_media'] : []), ...(stagedUploadId ? ['erasing_upload'] : [])].join('_')
}
