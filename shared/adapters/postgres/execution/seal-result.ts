import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import type { Media } from '#shared/media/media.ts'
import type { Sql } from '../pool.ts'
import { insertedMedia } from '../retention/media.ts'
import { erasedUpload } from '../retention/staged-uploads.ts'
import { moveJob } from './move-job.ts'

/** generating → generated: the result and its charge are fixed; prompt text and staged audio go with the same commit. */
export function sealResult(
  sql: Sql,
  job: ClaimedJob,
  attemptId: string,
  { usage, chargeAmount, resultBody, resultDigest }: SealedResult,
  media: Media | null,
): Promise<Written> {
  return moveJob(sql, job, 'generated', (parameter) => ({
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
      ...(media ? [insertedMedia(media, parameter)] : []),
      ...erasedUpload(job.stagedUploadId, parameter),
    ],
  }))
}
