import type { Sql } from '../pool.ts'
import { type PayerAmountRow, type PayerAmounts, payerAmounts, SHOWN_PAYERS } from './payer-amounts.ts'

/** Work done whose charge could not be collected and has not been paid since, however long ago it was. */
export async function readDebts(sql: Sql): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>(
    `SELECT payer, count(*)::int AS count, sum(charge_amount) AS total, count(*) OVER ()::int AS payers,
       (sum(count(*)) OVER ())::int AS all_count, sum(sum(charge_amount)) OVER () AS all_total
     FROM jobs WHERE is_owed
     GROUP BY payer ORDER BY total DESC, payer LIMIT $1`,
    [SHOWN_PAYERS],
  )
  return payerAmounts(rows)
}
