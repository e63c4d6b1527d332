import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

export interface FailureCount {
  readonly state: 'failed' | 'settlement_failed'
  readonly code: string
  readonly count: number
}

/** Counts the jobs that failed in the period and are still failed by their error code, most frequent first. */
export async function readUnchargedFailures(sql: Sql, { from, to }: LedgerPeriod): Promise<readonly FailureCount[]> {
  const { rows } = await sql.query<FailureCount>({
    name: 'read_uncharged_failures',
    text: `SELECT state, failure_code AS code, count(*)::int AS count
     FROM jobs WHERE state IN ('failed', 'settlement_failed') AND finished_at >= $1 AND finished_at < $2
     GROUP BY state, failure_code ORDER BY count(*) DESC, failure_code, state`,
    values: [from, to],
  })
  return rows
}
