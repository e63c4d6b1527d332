import type { Sql } from '../pool.ts'

/** Half-open, `from` ≤ t < `to`. Texts that PostgreSQL reads as timestamptz, since a JavaScript date would cut microseconds off. */
export interface LedgerPeriod {
  readonly from: string
  readonly to: string
}

/** Fills in what was not said: `to` is the database's present moment and `from` a day before `to`. */
export async function resolvePeriod(
  sql: Sql,
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
): Promise<LedgerPeriod> {
  const { rows } = await sql.query<LedgerPeriod>(
    `SELECT to_json(COALESCE($1, upper - interval '24 hours')) #>> '{}' AS "from", to_json(upper) #>> '{}' AS "to"
     FROM (SELECT COALESCE($2, clock_timestamp()) AS upper) AS bound`,
    [from ?? null, to ?? null],
  )
  const [period] = rows
  if (!period) throw new Error('a query over one row gives one row')
  return period
}
