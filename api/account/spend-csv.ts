import type { DailySpend } from '#shared/adapters/postgres/account/account-store.ts'
import { csvLines } from '#shared/csv/csv-lines.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

const COLUMNS = ['date', 'model', 'operation', 'calls', 'charge_usdc', 'charge_atomic']

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
  return csvLines([COLUMNS, ...lines])
}
