import type { SettlementTotals } from '#shared/jobs/reports-store.ts'
import type { Sql } from '../pool.ts'

/** Whether nobody has resolved the settlement, or the review of its job that it is part of. */
const isOpen = (item: 'review' | 'settlement') =>
  `NOT EXISTS (SELECT FROM resolutions WHERE item = '${item}' AND ${
    item === 'review' ? 'resolutions.job_id = settlements.job_id' : 'resolutions.settlement_id = settlements.id'
  })`

/**
 * Reads the totals by partial indexes on unfinished settlements, so the cost does not depend on the length of the
 * history.
 */
export async function readSettlementTotals(sql: Sql): Promise<SettlementTotals> {
  const { rows } = await sql.query<
    Record<'signed' | 'confirmed' | 'unproven' | 'lost' | 'surplus' | 'unknown' | 'oldest', number>
  >(
    `SELECT (SELECT count(*) FROM settlements WHERE state = 'signed')::int AS signed,
       (SELECT count(*) FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL)::int AS confirmed,
       (SELECT count(*) FROM settlements WHERE state = 'unproven' AND ${isOpen('review')})::int AS unproven,
       (SELECT count(*) FROM settlements WHERE state = 'lost' AND ${isOpen('settlement')})::int AS lost,
       (SELECT count(*) FROM settlements WHERE state = 'surplus' AND ${isOpen('settlement')})::int AS surplus,
       (SELECT count(*) FROM unknown_settlements WHERE resolved_at IS NULL AND NOT EXISTS (
          SELECT FROM jobs WHERE jobs.id = unknown_settlements.job_id AND jobs.state = 'review'))::int AS unknown,
       (SELECT coalesce(extract(epoch FROM now() - min(signed_at)), 0) FROM settlements WHERE state = 'signed')::float8
         AS oldest`,
  )
  const [row] = rows
  if (!row) throw new Error('a SELECT of counts always returns one row')
  const { oldest, ...counts } = row
  return { counts, oldestSignedAgeSeconds: oldest }
}
