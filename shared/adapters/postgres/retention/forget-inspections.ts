import type { Sql } from '../pool.ts'

/** Deletes expired verdicts on audio. Returns their number. */
export async function forgetInspections(sql: Sql, limit: number): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'forget_inspections',
    text: `DELETE FROM audio_inspections WHERE (audio_sha256, inspector) IN (
       SELECT audio_sha256, inspector FROM audio_inspections WHERE expires_at <= now()
       ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`,
    values: [limit],
  })
  return rowCount ?? 0
}
