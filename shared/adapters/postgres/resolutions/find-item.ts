import type { ItemName, ItemRecord } from '#shared/operators/resolution-store.ts'
import type { Sql } from '../pool.ts'
import { ITEM, ITEMS, type ItemRow, itemRecord } from './item-rows.ts'

/** Returns an item, open or ended; see the port. */
export async function findItem(sql: Sql, name: ItemName): Promise<ItemRecord | null> {
  if (name.kind !== 'unknown_settlement') return await findById(sql, name.kind, name.id)
  const { network, payer, nonce } = name
  const { rows } = await sql.query<ItemRow>({
    name: 'find_item_unknown_settlement',
    text: `SELECT ${ITEM} FROM (${ITEMS.unknown_settlement}
       AND unknown.network = $1 AND unknown.payer = $2 AND unknown.nonce = $3
       AND (unknown.resolved_at IS NULL OR resolution.resolution_id IS NOT NULL)) AS items`,
    values: [network, payer, nonce.toString()],
  })
  return rows[0] ? itemRecord(rows[0]) : await findReviewOf(sql, name)
}

const ID = { review: 'jobs.id', debt: 'jobs.id', settlement: 'settlements.id' } as const

async function findById(sql: Sql, kind: keyof typeof ID, id: string): Promise<ItemRecord | null> {
  const { rows } = await sql.query<ItemRow>({
    name: `find_item_${kind}`,
    text: `SELECT ${ITEM} FROM (${ITEMS[kind]} AND ${ID[kind]} = $1) AS items`,
    values: [id],
  })
  const item = rows[0] ? itemRecord(rows[0]) : null
  // A withheld result that its payer never had to pay for is no debt.
  return item?.kind === 'debt' && !item.isOwed && item.resolution === null ? null : item
}

/** Returns the review that an unknown settlement is part of. */
async function findReviewOf(
  sql: Sql,
  { network, payer, nonce }: Extract<ItemName, { kind: 'unknown_settlement' }>,
): Promise<ItemRecord | null> {
  const { rows } = await sql.query<{ job_id: string }>({
    name: 'find_job_of_unknown_settlement',
    text: `SELECT job_id FROM unknown_settlements
     WHERE network = $1 AND payer = $2 AND nonce = $3 AND job_id IS NOT NULL`,
    values: [network, payer, nonce.toString()],
  })
  const [row] = rows
  return row ? await findById(sql, 'review', row.job_id) : null
}
