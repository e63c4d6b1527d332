import type { ServedMedia } from '#shared/media/media.ts'
import type { Sql } from '../pool.ts'

/**
 * Returns unexpired media of a completed job, or of one whose result an operator re-serves; `null` for unknown, unpaid and
 * expired ones without distinction.
 */
export async function findMedia(sql: Sql, tokenSha256: string): Promise<ServedMedia | null> {
  const { rows } = await sql.query<ServedMedia & { bytes: string }>({
    name: 'find_media',
    text: `SELECT object_key AS "objectKey", content_type AS "contentType", sha256, bytes, expires_at AS "expiresAt"
     FROM media JOIN jobs ON jobs.id = media.job_id
     WHERE token_sha256 = $1 AND expires_at > now()
       AND (state = 'completed' OR state = 'review' AND EXISTS (
         SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND item = 'review' AND outcome = 're_served'))`,
    values: [tokenSha256],
  })
  return rows[0] ? { ...rows[0], bytes: Number(rows[0].bytes) } : null
}

/** Returns the object keys of expired media that are not deleted yet, the oldest first, after the first `skipped` ones. */
export async function findExpiredMedia(sql: Sql, limit: number, skipped = 0): Promise<readonly string[]> {
  const { rows } = await sql.query<{ object_key: string }>({
    name: 'find_expired_media',
    text: `SELECT object_key FROM media WHERE object_deleted_at IS NULL AND expires_at <= now()
     ORDER BY expires_at LIMIT $1 OFFSET $2`,
    values: [limit, skipped],
  })
  return rows.map(({ object_key }) => object_key)
}

export async function markMediaDeleted(sql: Sql, objectKeys: readonly string[]): Promise<void> {
  await sql.query({
    name: 'mark_media_deleted',
    text: 'UPDATE media SET object_deleted_at = now() WHERE object_key = ANY($1)',
    values: [objectKeys],
  })
}
