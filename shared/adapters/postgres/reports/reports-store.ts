import type { ReportsStore } from '#shared/jobs/reports-store.ts'
import type { Pool } from '../pool.ts'
import { readLedgerTotals, rollUpTotals } from './ledger-totals.ts'
import { rollUpHours } from './roll-up-hours.ts'
import { readSettlementTotals } from './settlement-totals.ts'
import { readSponsoredTotals } from './sponsored-totals.ts'

/** Creates the workers' store of totals over one pool. */
export function createReportsStore(pool: Pool): ReportsStore {
  return {
    readLedgerTotals: () => readLedgerTotals(pool),
    readSettlementTotals: () => readSettlementTotals(pool),
    readSponsoredTotals: () => readSponsoredTotals(pool),
    rollUpTotals: () => rollUpTotals(pool),
    rollUpHours: () => rollUpHours(pool),
  }
}
