import type { ReportsStore } from '#shared/jobs/reports-store.ts'
import type { Sweep } from './sweeper.ts'

/** More often than there are charges to roll up. */
const ROLL_UP_EVERY_MS = 60_000

/** Rolls up charges, so the totals that Prometheus reads stay cheap however long the history gets. */
export function rollUpTotals(reportsStore: Pick<ReportsStore, 'rollUpTotals'>): Sweep {
  let lookedAt = Number.NEGATIVE_INFINITY
  return {
    name: 'rolled up charges',
    run: async () => {
      if (performance.now() - lookedAt < ROLL_UP_EVERY_MS) return 0
      lookedAt = performance.now()
      return await reportsStore.rollUpTotals()
    },
  }
}
