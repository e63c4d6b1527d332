import type { Sql } from '../pool.ts'
import type { LedgerPeriod } from './period.ts'

export interface CountAndSum {
  readonly count: number
  readonly totalAtomic: bigint
}

/** Returns the charges of all jobs that were completed in the period, in atomic USDC. */
export async function readRevenue(sql: Sql, { from, to }: LedgerPeriod): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>({
    name: 'read_revenue',
    text: `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total
     FROM jobs WHERE state = 'completed' AND finished_at >= $1 AND finished_at < $2`,
    values: [from, to],
  })
  return countAndSum(rows)
}

/** Parses the one row of an aggregate without groups. */
export function countAndSum([row]: readonly { count: number; total: string }[]): CountAndSum {
  if (!row) throw new Error('an aggregate without groups always returns one row')
  return { count: row.count, totalAtomic: BigInt(row.total) }
}
