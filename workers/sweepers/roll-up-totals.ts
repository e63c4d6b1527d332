import type { ReportsStore } from '#shared/jobs/reports-store.ts'
import type { Sweep } from './sweeper.ts'

/** Every worker tries this often; the ledger decides whether enough has accumulated. */
const ROLL_UP_EVERY_MS = 60_000

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
