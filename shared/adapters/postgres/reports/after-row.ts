/**
 * Returns the condition that a row comes after the one with the id `parameter`, by `finished_at` and then by id; without
 * such a row, all do. The first half bounds what is read of an index by time.
 */
export function afterRow(table: 'settlements' | 'sponsored_permits', parameter: '$3' | '$5'): string {
  const time = `coalesce((SELECT finished_at FROM ${table} WHERE id = ${parameter}), '-infinity')`
  return `${table}.finished_at >= ${time} AND (${table}.finished_at, ${table}.id) > (${time}, ${parameter})`
}
