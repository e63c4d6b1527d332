import type pg from 'pg'
import { rollUpTotals } from '#shared/ledger/reports/ledger-totals.ts'

/** Brings the stored totals up to date with rows that are older than what they cover. */
export async function refreshTotals(client: pg.Client): Promise<void> {
  await client.query("UPDATE ledger_totals SET through = '-infinity', count = 0, total = 0")
  await rollUpTotals(client)
}
