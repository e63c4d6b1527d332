import type { Sql } from '../pool.ts'
import { type PayerAmountRow, type PayerAmounts, payerAmounts, SHOWN_PAYERS } from './payer-amounts.ts'

/** Returns finished work whose charge could not be settled, has not been paid since and is not written off, of any age. */
export async function readDebts(sql: Sql): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>({
    name: 'read_debts',
    text: `SELECT payer, count(*)::int AS count, sum(charge_amount) AS total, count(*) OVER ()::int AS payers,
       (sum(count(*)) OVER ())::int AS all_count, sum(sum(charge_amount)) OVER () AS all_total
     FROM jobs WHERE is_owed AND NOT EXISTS (SELECT FROM resolutions
       WHERE item = 'debt' AND resolutions.job_id = jobs.id AND resolutions.resolved_at >= jobs.finished_at)
     GROUP BY payer ORDER BY total DESC, payer LIMIT $1`,
    values: [SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}
