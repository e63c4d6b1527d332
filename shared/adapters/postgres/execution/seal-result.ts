import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob, NewResult } from '#shared/jobs/job.ts'
import type { Media } from '#shared/media/media.ts'
import { moveJobs, type SharedTransition, shareMove } from '../move-job.ts'
import type { Sql } from '../pool.ts'

interface Sealing {
  readonly job: ClaimedJob
  readonly attemptId: string
  readonly sealed: NewResult
  /** The object that the result refers to, which is stored already. */
  readonly media: Media | null
}

/** Results of one statement are in memory twice, so a longer one has a statement of its own. */
const LONGEST_SHARED_CHARACTERS = 256 * 1024

/**
 * Creates a function that moves generating → generated: fixes the result and its charge; the same commit erases the
 * prompt and the staged audio's data key. Jobs whose results arrive at the same time are moved by one statement.
 */
export function createResultSealer(sql: Sql): ExecutionStore['sealResult'] {
  const sealShared = shareMove<Sealing>(sql, SEAL_RESULTS)
  return async (job, attemptId, sealed, media) => {
    const sealing = { job, attemptId, sealed, media }
    if (sealed.resultBody.length <= LONGEST_SHARED_CHARACTERS) return await sealShared(sealing)
    const moved = await moveJobs(sql, [sealing], SEAL_RESULTS, 'wait')
    return moved.length === 1 ? 'written' : 'stale'
  }
}

const SEAL_RESULTS: SharedTransition<Sealing> = {
  to: 'generated',
  name: 'seal_results',
  columns: [
    { name: 'attempt_id', type: 'uuid', of: ({ attemptId }) => attemptId },
    { name: 'usage', type: 'jsonb', of: ({ sealed }) => JSON.stringify(sealed.usage) },
    { name: 'charge_amount', type: 'numeric', of: ({ sealed }) => sealed.chargeAmount.toString() },
    { name: 'result_body', type: 'text', of: ({ sealed }) => sealed.resultBody },
    { name: 'result_digest', type: 'text', of: ({ sealed }) => sealed.resultDigest },
    { name: 'upload_id', type: 'uuid', of: ({ job }) => job.stagedUploadId },
    { name: 'token_sha256', type: 'text', of: ({ media }) => media?.tokenSha256 ?? null },
    { name: 'object_key', type: 'text', of: ({ media }) => media?.objectKey ?? null },
    { name: 'content_type', type: 'text', of: ({ media }) => media?.contentType ?? null },
    { name: 'sha256', type: 'text', of: ({ media }) => media?.sha256 ?? null },
    { name: 'bytes', type: 'bigint', of: ({ media }) => media?.bytes ?? null },
    { name: 'expires_at', type: 'timestamptz', of: ({ media }) => media?.expiresAt ?? null },
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
    `erased AS (
       UPDATE staged_uploads SET data_key = NULL, erased_at = now()
       FROM moved WHERE staged_uploads.id = moved.upload_id AND data_key IS NOT NULL)`,
    `media AS (
       INSERT INTO media (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at)
       SELECT gen_random_uuid(), id, token_sha256, object_key, content_type, sha256, bytes, expires_at
       FROM moved WHERE object_key IS NOT NULL)`,
  ],
}
