import type { Sql } from '../pool.ts'
import { type PayerAmountRow, type PayerAmounts, payerAmounts, SHOWN_PAYERS } from './payer-amounts.ts'

/** Returns the sums that unfinished jobs may still charge: the charge where it is fixed, the quoted maximum before. */
export async function readOpenExposure(sql: Sql): Promise<PayerAmounts> {
  const { rows } = await sql.query<PayerAmountRow>({
    name: 'read_open_exposure',
    text: `SELECT payer, count(*)::int AS count, sum(COALESCE(charge_amount, quoted_maximum)) AS total,
       count(*) OVER ()::int AS payers, (sum(count(*)) OVER ())::int AS all_count,
       sum(sum(COALESCE(charge_amount, quoted_maximum))) OVER () AS all_total
     FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
     GROUP BY payer ORDER BY total DESC, payer LIMIT $1`,
    values: [SHOWN_PAYERS],
  })
  return payerAmounts(rows)
}
