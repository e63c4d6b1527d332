import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob, NewResult, Written } from '#shared/jobs/job.ts'
import type { Media } from '#shared/media/media.ts'
import { shareStatement } from '../batch.ts'
import { moveJob, moveJobs } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { insertMedia } from '../retention/hosted-media.ts'
import { eraseUpload } from '../retention/staged-uploads.ts'

interface Sealing {
  readonly job: ClaimedJob
  readonly attemptId: string
  readonly sealed: NewResult
}

/** Results of one statement are in memory twice, so a longer one has a statement of its own. */
const LONGEST_SHARED_CHARACTERS = 256 * 1024

/**
 * Creates a function that moves generating → generated, those jobs in one statement whose results arrive at the same time
 * and change nothing else.
 */
export function createResultSealer(sql: Sql): ExecutionStore['sealResult'] {
  const sealShared = shareStatement<Sealing, Written>({
    keyOf: ({ job }) => job.id,
    together: (sealings) => sealTogether(sql, sealings),
    alone: ({ job, attemptId, sealed }) => sealResult(sql, job, attemptId, sealed, null),
  })
  return (job, attemptId, sealed, media) => {
    const isPlain = media === null && job.stagedUploadId === null
    return isPlain && sealed.resultBody.length <= LONGEST_SHARED_CHARACTERS
      ? sealShared({ job, attemptId, sealed })
      : sealResult(sql, job, attemptId, sealed, media)
  }
}

async function sealTogether(sql: Sql, sealings: readonly Sealing[]): Promise<ReadonlyMap<string, Written>> {
  const moved = await moveJobs(sql, sealings, 'generated', {
    name: 'seal_results',
    columns: [
      { name: 'attempt_id', type: 'uuid', of: ({ attemptId }) => attemptId },
      { name: 'usage', type: 'jsonb', of: ({ sealed }) => JSON.stringify(sealed.usage) },
      { name: 'charge_amount', type: 'numeric', of: ({ sealed }) => sealed.chargeAmount.toString() },
      { name: 'result_body', type: 'text', of: ({ sealed }) => sealed.resultBody },
      { name: 'result_digest', type: 'text', of: ({ sealed }) => sealed.resultDigest },
    ],
    set: [
      'usage = free.usage',
      'charge_amount = free.charge_amount',
      'result_body = free.result_body',
      'result_digest = free.result_digest',
      'effective_request = NULL',
    ],
    together: [
      `succeeded AS (
         UPDATE upstream_attempts SET state = 'succeeded', finished_at = now()
         FROM moved WHERE upstream_attempts.id = moved.attempt_id)`,
    ],
  })
  return new Map([...moved].map((id) => [id, 'written']))
}

/**
 * Moves generating → generated: fixes the result and its charge; the same commit erases the prompt and the staged
 * audio's data key.
 */
function sealResult(
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
