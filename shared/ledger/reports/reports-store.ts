import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { IS_IN_REVIEW } from '../unknown-settlements.ts'
import { readKeyUse } from './key-use.ts'
import { readLedgerTotals, rollUpTotals } from './ledger-totals.ts'
import { readOldestSnapshot } from './oldest-snapshot.ts'
import { rollUpHours } from './roll-up-hours.ts'

export type ReportsStore = ReturnType<typeof createReportsStore>

/** Creates the store of totals, which workers and the console read. */
export function createReportsStore(pool: Pool) {
  return bindTo(pool, {
    readKeyUse,
    readLedgerTotals,
    readOldestSnapshot,
    readSettlementTotals,
    rollUpTotals,
    rollUpHours,
  })
}

/** Totals over all settlements of the ledger. */
export interface SettlementTotals {
  /** Settlements that are not done: signed, confirmed but not final; and unproven, lost, surplus, unknown and not resolved. */
  readonly counts: Readonly<Record<'signed' | 'confirmed' | 'unproven' | 'lost' | 'surplus' | 'unknown', number>>
  readonly oldestSignedAgeSeconds: number
}

/** Whether nobody has resolved the settlement, or the review of its job that it is part of. */
const isOpen = (item: 'review' | 'settlement') =>
  `NOT EXISTS (SELECT FROM resolutions WHERE item = '${item}' AND ${
    item === 'review' ? 'resolutions.job_id = settlements.job_id' : 'resolutions.settlement_id = settlements.id'
  })`

/**
 * Reads the totals by partial indexes on unfinished settlements, so the cost does not depend on the length of the
 * history.
 */
async function readSettlementTotals(sql: Sql): Promise<SettlementTotals> {
  const { rows } = await sql.query<SettlementTotals['counts'] & { oldest: number }>(
    `SELECT (SELECT count(*) FROM settlements WHERE state = 'signed')::int AS signed,
       (SELECT count(*) FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL)::int AS confirmed,
       (SELECT count(*) FROM settlements WHERE state = 'unproven' AND ${isOpen('review')})::int AS unproven,
       (SELECT count(*) FROM settlements WHERE state = 'lost' AND ${isOpen('settlement')})::int AS lost,
       (SELECT count(*) FROM settlements WHERE state = 'surplus' AND ${isOpen('settlement')})::int AS surplus,
       (SELECT count(*) FROM unknown_settlements AS unknown
        WHERE resolved_at IS NULL AND NOT ${IS_IN_REVIEW})::int AS unknown,
       (SELECT coalesce(extract(epoch FROM now() - min(signed_at)), 0) FROM settlements WHERE state = 'signed')::float8
         AS oldest`,
  )
  const [row] = rows
  if (!row) throw new Error('a SELECT of counts always returns one row')
  const { oldest, ...counts } = row
  return { counts, oldestSignedAgeSeconds: oldest }
}
