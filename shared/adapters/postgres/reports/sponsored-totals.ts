import type { SponsoredTotals } from '#shared/jobs/reports-store.ts'
import type { Sql } from '../pool.ts'

/** Reads the totals by partial indexes: of permits in progress, and of the gas of the last day. */
export async function readSponsoredTotals(sql: Sql): Promise<SponsoredTotals> {
  const { rows } = await sql.query<{
    requested: number
    signed: number
    oldest: number
    reserved: string
    spent: string
  }>({
    name: 'read_sponsored_totals',
    text: `SELECT count(*) FILTER (WHERE state = 'requested')::int AS requested,
       count(*) FILTER (WHERE state = 'signed')::int AS signed,
       coalesce(extract(epoch FROM now() - min(requested_at)), 0)::float8 AS oldest,
       coalesce(sum(coalesce(expected_gas_wei, reserved_gas_wei)), 0) AS reserved,
       (SELECT coalesce(sum(gas_wei), 0) FROM sponsored_permits
        WHERE gas_wei IS NOT NULL AND finished_at > now() - interval '1 day') AS spent
     FROM sponsored_permits WHERE state IN ('requested', 'signed')`,
    values: [],
  })
  const [row] = rows
  if (!row) throw new Error('an aggregate without groups always returns one row')
  return {
    counts: { requested: row.requested, signed: row.signed },
    oldestPendingAgeSeconds: row.oldest,
    dayGasWei: BigInt(row.spent) + BigInt(row.reserved),
  }
}
