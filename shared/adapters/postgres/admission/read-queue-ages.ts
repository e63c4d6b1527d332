import type { Sql } from '../pool.ts'

/**
 * Returns how long the oldest accepted job of each operation has waited for a worker, in milliseconds. Leased jobs do
 * not count, and deferred ones do not even when they are due: they wait for each other, not for a worker.
 */
export async function readQueueAges(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ operation: string; age_ms: number }>(
    `SELECT operation, (extract(epoch FROM now() - min(run_after)) * 1000)::float8 AS age_ms
     FROM jobs
     WHERE state = 'accepted' AND run_after <= now() AND deferred_since IS NULL
       AND (lease_expires_at IS NULL OR lease_expires_at <= now())
     GROUP BY operation`,
  )
  return new Map(rows.map(({ operation, age_ms }) => [operation, age_ms]))
}
