import type { WorkerKeys } from '#shared/operators/validate-configuration.ts'
import type { Sql } from '../pool.ts'

/** Returns where the running workers that call providers send keys. */
export async function readWorkerKeys(sql: Sql): Promise<readonly WorkerKeys[]> {
  const { rows } = await sql.query<WorkerKeys>({
    name: 'read_worker_keys',
    text: `SELECT instance, report -> 'providerKeys' AS "providerKeys" FROM process_reports
      WHERE kind = 'worker' AND seen_at >= now() - interval '10 seconds' AND report ? 'providerKeys'
      ORDER BY instance LIMIT 1000`,
    values: [],
  })
  return rows
}
