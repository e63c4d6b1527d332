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

/**
 * Returns the condition that a row comes after the one with the id `parameter`, by `finished_at` and then by id; without
 * such a row, all do. The first half bounds what is read of an index by time.
 */
export function afterRow(table: 'settlements' | 'sponsored_permits', parameter: '$3' | '$5'): string {
  const time = `coalesce((SELECT finished_at FROM ${table} WHERE id = ${parameter}), '-infinity')`
  return `${table}.finished_at >= ${time} AND (${table}.finished_at, ${table}.id) > (${time}, ${parameter})`
}
