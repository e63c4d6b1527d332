import type { Sql } from '../pool.ts'

/**
 * Erases results past their retention; of a review it begins when a person ends it. A withheld result that is erased is
 * no longer owed. Receipt, payment and digest
 * stay, so that a replay still returns the receipt's id. Returns the number of erased results.
 */
export async function expireResults(sql: Sql, retentionMs: number, limit: number): Promise<number> {
  const { rowCount } = await sql.query({
    name: 'expire_results',
    text: `UPDATE jobs SET result_body = NULL, is_owed = false,
       result_expired_at = CASE WHEN state <> 'review' THEN now() END
     WHERE id IN (
       SELECT id FROM jobs
       WHERE result_body IS NOT NULL AND finished_at <= now() - make_interval(secs => $1 / 1000.0)
         AND (state IN ('completed', 'settlement_failed') OR state = 'review' AND EXISTS (
           SELECT FROM resolutions WHERE resolutions.job_id = jobs.id AND resolutions.item = 'review'
             AND resolved_at <= now() - make_interval(secs => $1 / 1000.0)))
       ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    values: [retentionMs, limit],
  })
  return rowCount ?? 0
}
