import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import type { Sweep } from './sweeper.ts'

/** Every worker tries this often; the ledger decides whether enough has accumulated. */
const ROLL_UP_EVERY_MS = 60_000
/** Hours that one statement adds, so that it ends in time under any load; all hours of an older ledger follow at once. */
const ROLLED_UP_HOURS = 1

/** Rolls up charges, so the totals that Prometheus reads stay cheap as the history grows. */
export function rollUpTotals(reportsStore: Pick<ReportsStore, 'rollUpTotals'>): Sweep {
  let triedAt = Number.NEGATIVE_INFINITY
  return {
    name: 'rolled up charges',
    run: async () => {
      if (performance.now() - triedAt < ROLL_UP_EVERY_MS) return 0
      triedAt = performance.now()
      return await reportsStore.rollUpTotals()
    },
  }
}

/** Rolls up hours for the console's ledger, the history of an older ledger included. */
export function rollUpHours(reportsStore: Pick<ReportsStore, 'rollUpHours'>): Sweep {
  return {
    name: 'rolled up hours',
    leastIntervalMs: ROLL_UP_EVERY_MS,
    batch: ROLLED_UP_HOURS,
    run: async () => await reportsStore.rollUpHours(ROLLED_UP_HOURS),
  }
}
