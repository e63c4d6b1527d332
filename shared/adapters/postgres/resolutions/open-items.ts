import { RESOLVABLE_ITEMS, type ResolvableItem } from '#shared/jobs/resolution.ts'
import type { List, ListPage } from '#shared/operators/money-store.ts'
import type { ItemFilter, ItemRecord } from '#shared/operators/resolution-store.ts'
import { BEGINNING, cutPage, microsecondsOf, timestampOf } from '../account/position.ts'
import type { Sql } from '../pool.ts'
import { IS_OPEN, ITEM, ITEMS, type ItemRow, itemRecord } from './item-rows.ts'

/** The column of each kind that a filter compares. */
const TABLES: Readonly<Record<ResolvableItem, string>> = {
  review: 'jobs',
  settlement: 'settlements',
  unknown_settlement: 'unknown',
  debt: 'jobs',
}
const JOB_ID: Readonly<Record<ResolvableItem, string>> = {
  review: 'jobs.id',
  settlement: 'settlements.job_id',
  unknown_settlement: 'unknown.job_id',
  debt: 'jobs.id',
}

/** Returns open items, oldest first. Reads all of them: they are few, or somebody should know. */
export async function openItems(sql: Sql, filter: ItemFilter, page: ListPage): Promise<List<ItemRecord>> {
  const kinds = filter.kind === undefined ? RESOLVABLE_ITEMS : [filter.kind]
  const after = page.after ?? { ...BEGINNING, id: '' }
  const values: unknown[] = [after.microseconds.toString(), after.id, page.limit + 1]
  const payer = filter.payer === undefined ? null : `$${values.push(filter.payer.toLowerCase())}`
  const jobId = filter.jobId === undefined ? null : `$${values.push(filter.jobId)}`
  const filters = [filter.kind ?? 'all', ...(payer ? ['payer'] : []), ...(jobId ? ['job'] : [])].join('_')
  const { rows } = await sql.query<ItemRow & { microseconds: string }>({
    name: `open_items_${filters}`,
    text: `SELECT ${ITEM}, ${microsecondsOf('since')} AS microseconds FROM (
       ${kinds.map((kind) => selectOpen(kind, payer, jobId)).join('\n UNION ALL ')}) AS items
     WHERE (since, id) > (${timestampOf('$1')}, $2) ORDER BY since, id LIMIT $3`,
    values,
  })
  const cut = cutPage(rows, page.limit)
  return { entries: cut.rows.map(itemRecord), next: cut.next }
}

function selectOpen(kind: ResolvableItem, payer: string | null, jobId: string | null): string {
  const conditions = [
    IS_OPEN[kind],
    ...(payer ? [`${TABLES[kind]}.payer = ${payer}`] : []),
    ...(jobId ? [`${JOB_ID[kind]} = ${jobId}`] : []),
  ]
  return `(${ITEMS[kind]} AND ${conditions.join(' AND ')})`
}
