import type { AccountPeriod, DailySpend } from '#shared/jobs/account-store.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Pool } from '../pool.ts'
import { inTransaction } from '../transaction.ts'

const QUERY_CANCELED = '57014'

interface SpendRow {
  readonly date: string
  readonly model: string
  readonly operation: string
  readonly calls: number
  readonly charge: string
}

/** Returns a payer's charges by UTC day of completion, model and operation, or `too_long` when time runs out. */
export async function readSpend(
  pool: Pool,
  payer: string,
  { from, until }: AccountPeriod,
  timeoutMs: number,
): Promise<readonly DailySpend[] | 'too_long'> {
  try {
    return await inTransaction(pool, async (sql) => {
      await sql.query(`SET LOCAL statement_timeout = ${timeoutMs}`)
      const { rows } = await sql.query<SpendRow>({
        name: 'read_account_spend',
        text: `SELECT to_char(day, 'YYYY-MM-DD') AS date, model, operation, calls, charge
         FROM (
           SELECT (finished_at AT TIME ZONE 'UTC')::date AS day, public_model AS model, operation,
             count(*)::int AS calls, sum(charge_amount) AS charge
           FROM jobs WHERE payer = $1 AND state = 'completed' AND finished_at >= coalesce($2::timestamptz, '-infinity')
             AND finished_at < coalesce($3::timestamptz, 'infinity')
           GROUP BY 1, 2, 3) AS daily
         ORDER BY day, model, operation`,
        values: [payer, from, until],
      })
      return rows.map((row) => ({ ...row, charge: toAmount(row.charge) }))
    })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === QUERY_CANCELED) return 'too_long'
    throw error
  }
}

function toAmount(digits: string): AtomicAmount {
  return atomicAmount(BigInt(digits))
}
