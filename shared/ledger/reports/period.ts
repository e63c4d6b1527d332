import type { Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'

/** A half-open period, `from` ≤ t < `to`. Texts of timestamptz, since a JavaScript date would lose the microseconds. */
export interface LedgerPeriod {
  readonly from: string
  readonly to: string
}

/** Returns the period with defaults: `to` is the database's current time, `from` is 24 hours before `to`. */
export async function resolvePeriod(
  sql: Sql,
  { from, to }: { readonly from?: string | undefined; readonly to?: string | undefined },
): Promise<LedgerPeriod> {
  const period = await readFirst<LedgerPeriod>(sql, {
    name: 'resolve_report_period',
    text: `SELECT to_json(COALESCE($1, upper - interval '24 hours')) #>> '{}' AS "from", to_json(upper) #>> '{}' AS "to"
     FROM (SELECT COALESCE($2, clock_timestamp()) AS upper) AS bound`,
    values: [from ?? null, to ?? null],
  })
  if (!period) throw new Error('a query over one row always returns it')
  return period
}
