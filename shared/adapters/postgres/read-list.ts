import type { List, ListPage, ListPosition } from '#shared/operators/money-store.ts'
import type { PositionRow } from './position.ts'

/**
 * Reads a page of a list by `read`, which returns up to one row more than the limit, from the place of the page on: of
 * a page that is left backwards in reverse.
 */
export async function readList<Row, Entry>(
  page: ListPage,
  read: (page: ListPage) => Promise<readonly (Row & PositionRow)[]>,
  entryOf: (row: Row) => Entry,
): Promise<List<Entry>> {
  const isBack = page.before !== undefined
  const rows = await read(page)
  const hasMore = rows.length > page.limit
  // All that is before the place fits on the first page, which is read as it is now; so is one behind an ended list.
  if (isBack ? !hasMore : page.after !== null && rows.length === 0)
    return await readList({ limit: page.limit, after: null }, read, entryOf)
  const shown = rows.slice(0, page.limit)
  if (isBack) shown.reverse()
  return {
    entries: shown.map(entryOf),
    previous: isBack || page.after !== null ? positionOf(shown.at(0)) : null,
    next: isBack || hasMore ? positionOf(shown.at(-1)) : null,
  }
}

function positionOf(row: PositionRow | undefined): ListPosition | null {
  return row ? { microseconds: BigInt(row.microseconds), id: row.id } : null
}
