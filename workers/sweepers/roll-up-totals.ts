import type { LedgerFiguresStore } from '#shared/jobs/ledger-figures.ts'
import type { Sweep } from './sweeper.ts'

/** Far more often than there is anything to move. */
const LOOK_EVERY_MS = 60_000

/** Keeps the totals that Prometheus reads cheap to read, however long the history gets. */
export function rollUpTotals(ledger: Pick<LedgerFiguresStore, 'rollUpTotals'>): Sweep {
  let lookedAt = Number.NEGATIVE_INFINITY
  return {
    name: 'rolled up charges',
    run: async () => {
      if (performance.now() - lookedAt < LOOK_EVERY_MS) return 0
      lookedAt = performance.now()
      return await ledger.rollUpTotals()
    },
  }
}
