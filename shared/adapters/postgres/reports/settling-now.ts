import type { Sql } from '../pool.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/** Settlements that are signed and not decided yet, at their charges. They may or may not be on chain. */
export async function readSettlingNow(sql: Sql): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>(
    `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total FROM settlements WHERE state = 'signed'`,
  )
  return countAndSum(rows)
}
