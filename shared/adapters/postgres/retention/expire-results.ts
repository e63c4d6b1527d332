import type { Sql } from '../pool.ts'

/**
 * Erases results whose retention is over, withheld ones as well: nobody owes for what is no more to be had. Receipt, payment and digest stay, so a replay can be told
 * what it was charged for.
 */
export async function expireResults(sql: Sql, retentionMs: number, limit: number): Promise<number> {
  const { rowCount } = await sql.query(
    `UPDATE jobs SET result_body = NULL, result_expired_at = now(), is_owed = false WHERE id IN (
       SELECT id FROM jobs
       WHERE result_body IS NOT NULL AND finished_at <= now() - make_interval(secs => $1 / 1000.0)
         AND state IN ('completed', 'settlement_failed')
       ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    [retentionMs, limit],
  )
  return rowCount ?? 0
}
