/**
 * Returns a table of rows whose columns are the statement's parameters, one array each from `$1` on. PostgreSQL would
 * look into an array that is a plain parameter, find each time that a plan for its length is cheaper than one for any
 * length, and plan every execution again, which takes longer than a short statement itself; it does not look into a
 * sub-select.
 */
export function listed(...types: readonly string[]): string {
  return `unnest(${types.map((type, index) => `(SELECT $${index + 1}::${type}[])`).join(', ')})`
}

/** Returns the columns of rows, as the parameters of `listed`. */
export function columnsOf(rows: readonly (readonly unknown[])[]): unknown[][] {
  const [first = []] = rows
  return first.map((_, column) => rows.map((row) => row[column]))
}
