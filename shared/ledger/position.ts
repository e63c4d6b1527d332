/** A position in a list that is ordered by time and, within a microsecond, by id. */
export interface Position {
  readonly microseconds: bigint
  readonly id: string
}

/** Microseconds of a timestamp since 1970, as text: a JavaScript date would lose them. */
export function microsecondsOf(column: string): string {
  return `(extract(epoch FROM ${column}) * 1000000)::bigint::text`
}

/** The timestamp of a parameter with such microseconds. */
export function timestampOf(parameter: string): string {
  return `(timestamptz 'epoch' + ${parameter}::bigint * interval '1 microsecond')`
}

export interface PositionRow {
  readonly id: string
  readonly microseconds: string
}

const EARLIEST_ID = '00000000-0000-0000-0000-000000000000'

/** Before every row. */
export const BEGINNING: Position = { microseconds: 0n, id: EARLIEST_ID }

/** After every row; in the year 2255, up to which a double has every microsecond. */
export const END: Position = { microseconds: BigInt(Number.MAX_SAFE_INTEGER), id: EARLIEST_ID }

/** Returns the position of a moment, before all rows of that microsecond. */
export function positionAt(moment: Date): Position {
  return { microseconds: BigInt(moment.getTime()) * 1000n, id: EARLIEST_ID }
}

/** Returns the rows of a page, of which one more than `limit` was read, and where the next page begins. */
export function cutPage<Row extends PositionRow>(
  rows: readonly Row[],
  limit: number,
): { readonly rows: readonly Row[]; readonly next: Position | null } {
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const hasMore = rows.length > limit && last !== undefined
  return { rows: page, next: hasMore ? { microseconds: BigInt(last.microseconds), id: last.id } : null }
}
