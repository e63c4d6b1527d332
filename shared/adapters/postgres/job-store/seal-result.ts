import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { Written } from '#shared/jobs/job-store.ts'
import type { Media } from '#shared/media/media.ts'
import type { Pool } from '../pool.ts'
import { insertMedia } from './media.ts'
import { asTransition, moveJob } from './move-job.ts'
import { eraseUploadKey } from './staged-uploads.ts'

/** generating → generated: the result and its charge are fixed; prompt text and staged audio go with the same commit. */
export async function sealResult(
  pool: Pool,
  job: ClaimedJob,
  attemptId: string,
  sealed: SealedResult,
  media: Media | null,
): Promise<Written> {
  return await asTransition(pool, async (sql) => {
    await moveJob(
      sql,
      job,
      'generated',
      ', usage = $5, charge_amount = $6, result_body = $7, result_digest = $8, effective_request = NULL',
      [JSON.stringify(sealed.usage), sealed.chargeAmount.toString(), sealed.resultBody, sealed.resultDigest],
    )
    await sql.query(`UPDATE upstream_attempts SET state = 'succeeded', finished_at = now() WHERE id = $1`, [attemptId])
    if (media) await insertMedia(sql, job.id, media)
    await eraseUploadKey(sql, job.stagedUploadId)
  })
}
