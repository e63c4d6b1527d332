import { STAGED_UPLOAD_LIFETIME_SECONDS, type StagedUpload } from '#shared/media/staged-upload.ts'
import type { Parameter } from '../move-job.ts'
import type { Sql } from '../pool.ts'

/** Inserts the upload's row when its job is accepted; the encrypted object is already stored. */
export async function insertStagedUpload(sql: Sql, jobId: string, stagedUpload: StagedUpload | null): Promise<void> {
  if (!stagedUpload) return
  await sql.query({
    name: 'insert_staged_upload',
    text: `INSERT INTO staged_uploads (id, job_id, object_key, data_key, expires_at)
     VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))`,
    values: [stagedUpload.id, jobId, stagedUpload.objectKey, stagedUpload.dataKey, STAGED_UPLOAD_LIFETIME_SECONDS],
  })
}

/** Returns location and data key of a staged upload, or `null` once it is erased or expired. */
export async function openStagedUpload(sql: Sql, stagedUploadId: string): Promise<StagedUpload | null> {
  const { rows } = await sql.query<StagedUpload>({
    name: 'open_staged_upload',
    text: `SELECT id, object_key AS "objectKey", data_key AS "dataKey" FROM staged_uploads
     WHERE id = $1 AND data_key IS NOT NULL AND expires_at > now()`,
    values: [stagedUploadId],
  })
  return rows[0] ?? null
}

/**
 * Returns the part of a transition that erases an upload's data key. A sweeper, which can retry, deletes the object
 * later.
 */
export function eraseUpload(stagedUploadId: string | null, parameter: Parameter): readonly string[] {
  if (stagedUploadId === null) return []
  return [
    `erased AS (
       UPDATE staged_uploads SET data_key = NULL, erased_at = now()
       FROM moved WHERE staged_uploads.id = ${parameter(stagedUploadId)} AND data_key IS NOT NULL)`,
  ]
}

/**
 * Erases the data keys of expired uploads. Returns the object keys of all erased uploads whose objects are not deleted
 * yet, the oldest first, after the first `skipped` ones.
 */
export async function eraseExpiredUploads(sql: Sql, limit: number, skipped = 0): Promise<readonly string[]> {
  // `object_deleted_at IS NULL` is always true here, and lets PostgreSQL use the partial index.
  await sql.query(
    `UPDATE staged_uploads SET data_key = NULL, erased_at = now()
     WHERE data_key IS NOT NULL AND expires_at <= now() AND object_deleted_at IS NULL`,
  )
  const { rows } = await sql.query<{ object_key: string }>({
    name: 'erase_expired_uploads',
    text: `SELECT object_key FROM staged_uploads WHERE data_key IS NULL AND object_deleted_at IS NULL
     ORDER BY expires_at LIMIT $1 OFFSET $2`,
    values: [limit, skipped],
  })
  return rows.map(({ object_key }) => object_key)
}

export async function markUploadsDeleted(sql: Sql, objectKeys: readonly string[]): Promise<void> {
  await sql.query({
    name: 'mark_uploads_deleted',
    text: 'UPDATE staged_uploads SET object_deleted_at = now() WHERE object_key = ANY($1)',
    values: [objectKeys],
  })
}
