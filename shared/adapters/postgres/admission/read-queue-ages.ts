import type { Sql } from '../pool.ts'

/**
 * Returns how long the oldest accepted job of each operation has waited for its provider call, in milliseconds, in the
 * queue or in a worker: a job that is leased may still wait there for memory or for its deployments. Deferred ones do not
 * count, even when they are due: they wait for each other.
 */
export async function readQueueAges(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ operation: string; age_ms: number }>(
    `SELECT operation, (extract(epoch FROM now() - min(run_after)) * 1000)::float8 AS age_ms
     FROM jobs
     WHERE state = 'accepted' AND run_after <= now() AND deferred_since IS NULL
     GROUP BY operation`,
  )
  return new Map(rows.map(({ operation, age_ms }) => [operation, age_ms]))
}
