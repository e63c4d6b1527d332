import { RESOLVABLE_ITEMS, type ResolvableItem } from '#shared/jobs/resolution.ts'
import type { ItemRecord } from '#shared/operators/item.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { BEGINNING, microsecondsOf, type PositionRow, timestampOf } from '../position.ts'
import { type List, type ListPage, readList } from '../read-list.ts'
import { readRows } from '../read-rows.ts'
import { findItem, IS_OPEN, ITEM, ITEMS, type ItemRow, itemRecord } from './item-rows.ts'
import { storeResolution } from './store-resolution.ts'

/** Items for a person, and how they were ended. */
export type ResolutionStore = ReturnType<typeof createResolutionStore>

/** Creates the store of items that a person ends. */
export function createResolutionStore(pool: Pool) {
  return bindTo(pool, { openItems, findItem, storeResolution })
}

export interface ItemFilter {
  readonly kind?: ResolvableItem | undefined
  readonly payer?: string | undefined
  readonly jobId?: string | undefined
}

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
async function openItems(sql: Sql, filter: ItemFilter, page: ListPage): Promise<List<ItemRecord>> {
  return await readList(
    page,
    (one) => readOpen(sql, filter, one),
    ({ microseconds: _microseconds, ...row }: ItemRow & PositionRow) => itemRecord(row),
  )
}

async function readOpen(sql: Sql, filter: ItemFilter, { limit, after, before }: ListPage) {
  const kinds = filter.kind === undefined ? RESOLVABLE_ITEMS : [filter.kind]
  const [position, beyond, order] = before ? [before, '<', ' DESC'] : [after ?? { ...BEGINNING, id: '' }, '>', '']
  const values: unknown[] = [position.microseconds.toString(), position.id, limit + 1]
  const payer = filter.payer === undefined ? null : `$${values.push(filter.payer.toLowerCase())}`
  const jobId = filter.jobId === undefined ? null : `$${values.push(filter.jobId)}`
  const parts = [filter.kind ?? 'all', payer && 'payer', jobId && 'job', before && 'back']
  const suffix = parts.filter((part) => typeof part === 'string').join('_')
  return await readRows<ItemRow & PositionRow>(sql, {
    name: `open_items_${suffix}`,
    text: `SELECT ${ITEM}, ${microsecondsOf('since')} AS microseconds FROM (
       ${kinds.map((kind) => selectOpen(kind, payer, jobId)).join('\n UNION ALL ')}) AS items
     WHERE (since, id) ${beyond} (${timestampOf('$1')}, $2) ORDER BY since${order}, id${order} LIMIT $3`,
    values,
  })
}

function selectOpen(kind: ResolvableItem, payer: string | null, jobId: string | null): string {
  const conditions = [
    IS_OPEN[kind],
    ...(payer ? [`${TABLES[kind]}.payer = ${payer}`] : []),
    ...(jobId ? [`${JOB_ID[kind]} = ${jobId}`] : []),
  ]
  return `(${ITEMS[kind]} AND ${conditions.join(' AND ')})`
}
