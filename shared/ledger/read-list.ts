import type { PositionRow } from './position.ts'

/** A position in a list that is ordered by time and, within a microsecond, by id. */
export interface ListPosition {
  readonly microseconds: bigint
  readonly id: string
}

export interface ListPage {
  readonly limit: number
  /** The last entry of the page before; `null` for the first page. */
  readonly after: ListPosition | null
  /** In place of `after`: the first entry of the page behind. */
  readonly before?: ListPosition | undefined
}

export interface List<Entry> {
  readonly entries: readonly Entry[]
  /** The first entry, before which there are others; `null` on the first page. */
  readonly previous: ListPosition | null
  /** The last entry, after which there are others; `null` on the last page. */
  readonly next: ListPosition | null
}

/**
 * Reads a page of a list by `read`, which returns up to one row more than the limit, from the position of the page on: of
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
  // All that is before the position fits on the first page, which is read as it is now; so is one behind an ended list.
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
