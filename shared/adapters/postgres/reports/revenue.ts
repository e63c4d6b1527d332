import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

export interface CountAndSum {
  readonly count: number
  readonly totalAtomic: bigint
}

/** The charges of all jobs that were completed in the period, in atomic USDC. */
export async function readRevenue(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>(
    `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2`,
    [from, to],
  )
  return countAndSum(rows)
}

/** The one row of an aggregate without groups. */
export function countAndSum([row]: readonly { count: number; total: string }[]): CountAndSum {
  if (!row) throw new Error('an aggregate without groups always gives one row')
  return { count: row.count, totalAtomic: BigInt(row.total) }
}
