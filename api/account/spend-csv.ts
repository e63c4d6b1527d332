import type { DailySpend } from '#shared/jobs/account-store.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

const COLUMNS = ['date', 'model', 'operation', 'calls', 'charge_usdc', 'charge_atomic']

/** Spreadsheets run a cell that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r\n]/
const NEEDS_QUOTES = /[",\r\n]/

/** Returns the rows as CSV with a header (RFC 4180). Names cannot become formulas. */
export function spendCsv(rows: readonly DailySpend[]): string {
  const lines = rows.map(({ date, model, operation, calls, charge }) => [
    date,
    model,
    operation,
    calls.toString(),
    dollarsFromAtomic(charge),
    charge.toString(),
  ])
  return [COLUMNS, ...lines].map((cells) => `${cells.map(cellText).join(',')}\r\n`).join('')
}

function cellText(value: string): string {
  const text = FORMULA.test(value) ? `'${value}` : value
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
