import type { Sql } from '../pool.ts'
import { type CountAndSum, countAndSum } from './revenue.ts'

/** Returns number and charges of the signed settlements whose outcome is open. They may or may not be on chain. */
export async function readSettlingNow(sql: Sql): Promise<CountAndSum> {
  const { rows } = await sql.query<{ count: number; total: string }>(
    `SELECT count(*)::int AS count, COALESCE(sum(charge_amount), 0) AS total FROM settlements WHERE state = 'signed'`,
  )
  return countAndSum(rows)
}
