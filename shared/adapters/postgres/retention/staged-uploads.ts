import { STAGED_UPLOAD_LIFETIME_SECONDS, type StagedUpload } from '#shared/media/staged-upload.ts'
import type { Parameter } from '../execution/move-job.ts'
import type { Sql } from '../pool.ts'

/** Part of accepting a job; the encrypted object itself is stored before. */
export async function insertStagedUpload(sql: Sql, jobId: string, stagedUpload: StagedUpload | null): Promise<void> {
  if (!stagedUpload) return
  await sql.query(
    `INSERT INTO staged_uploads (id, job_id, object_key, data_key, expires_at)
     VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))`,
    [stagedUpload.id, jobId, stagedUpload.objectKey, stagedUpload.dataKey, STAGED_UPLOAD_LIFETIME_SECONDS],
  )
}

/** The way into a staged upload, or `null` once it is erased or past its hour. */
export async function openStagedUpload(sql: Sql, stagedUploadId: string): Promise<StagedUpload | null> {
  const { rows } = await sql.query<StagedUpload>(
    `SELECT id, object_key AS "objectKey", data_key AS "dataKey" FROM staged_uploads
     WHERE id = $1 AND data_key IS NOT NULL AND expires_at > now()`,
    [stagedUploadId],
  )
  return rows[0] ?? null
}

/** Part of a transition: makes an upload unreadable for good. Its object is deleted later, by a sweeper that can retry. */
export function erasedUpload(stagedUploadId: string | null, parameter: Parameter): readonly string[] {
  if (stagedUploadId === null) return []
  return [
    `erased AS (
       UPDATE staged_uploads SET data_key = NULL, erased_at = now()
       FROM moved WHERE staged_uploads.id = ${parameter(stagedUploadId)} AND data_key IS NOT NULL)`,
  ]
}

/** Erases the keys of expired uploads and names the objects, of these and of earlier erased ones, that are still there. */
export async function eraseExpiredUploads(sql: Sql, limit: number): Promise<readonly string[]> {
  // No object is deleted before its key is erased; said here because the index of what is to reap ends at that.
  await sql.query(
    `UPDATE staged_uploads SET data_key = NULL, erased_at = now()
     WHERE data_key IS NOT NULL AND expires_at <= now() AND object_deleted_at IS NULL`,
  )
  const { rows } = await sql.query<{ object_key: string }>(
    `SELECT object_key FROM staged_uploads WHERE data_key IS NULL AND object_deleted_at IS NULL
     ORDER BY expires_at LIMIT $1`,
    [limit],
  )
  return rows.map(({ object_key }) => object_key)
}

export async function markUploadsDeleted(sql: Sql, objectKeys: readonly string[]): Promise<void> {
  await sql.query('UPDATE staged_uploads SET object_deleted_at = now() WHERE object_key = ANY($1)', [objectKeys])
}
