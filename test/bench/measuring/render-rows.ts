export type Row = Readonly<Record<string, string | number>>

/**
 * Renders rows as an aligned table with a column for each name; numbers are right-aligned with three significant
 * digits.
 */
export function renderRows(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const columns = names.map((name) => {
    const cells = [name, ...rows.map((row) => renderCell(row[name]))]
    const width = Math.max(...cells.map((cell) => cell.length))
    const isText = rows.some((row) => typeof row[name] === 'string')
    return cells.map((cell) => (isText ? cell.padEnd(width) : cell.padStart(width)))
  })
  return Array.from({ length: rows.length + 1 }, (_, line) =>
    columns
      .map((cells) => cells[line])
      .join('  ')
      .trimEnd(),
  ).join('\n')
}

function renderCell(value: string | number | undefined): string {
  if (typeof value !== 'number') return value ?? ''
  if (Number.isInteger(value)) return String(value)
  const size = Math.abs(value)
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)
}
