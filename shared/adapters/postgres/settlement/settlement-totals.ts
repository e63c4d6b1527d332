import type { SettlementTotals } from '#shared/jobs/settlement-store.ts'
import type { Sql } from '../pool.ts'

/** One statement over the partial indexes of what is not done with, so that it costs the same however long the history is. */
export async function readTotals(sql: Sql): Promise<SettlementTotals> {
  const { rows } = await sql.query<Record<'signed' | 'confirmed' | 'unproven' | 'lost' | 'oldest', number>>(
    `SELECT (SELECT count(*) FROM settlements WHERE state = 'signed')::int AS signed,
       (SELECT count(*) FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL)::int AS confirmed,
       (SELECT count(*) FROM settlements WHERE state = 'unproven')::int AS unproven,
       (SELECT count(*) FROM settlements WHERE state = 'lost')::int AS lost,
       (SELECT coalesce(extract(epoch FROM now() - min(signed_at)), 0) FROM settlements WHERE state = 'signed')::float8
         AS oldest`,
  )
  const [row] = rows
  if (!row) throw new Error('a SELECT of counts gives one row')
  const { oldest, ...counts } = row
  return { counts, oldestSignedAgeSeconds: oldest }
}
