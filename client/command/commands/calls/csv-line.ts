const NEEDS_QUOTES = /[",\r\n]/
/** A spreadsheet would take it for a formula. */
const FORMULA = /^[=+\-@\t\r]/

/** Renders a line of CSV (RFC 4180). */
export function csvLine(cells: readonly string[]): string {
  const rendered = cells.map((cell) => {
    const text = FORMULA.test(cell) ? `'${cell}` : cell
    return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  })
  return `${rendered.join(',')}\r\n`
}
