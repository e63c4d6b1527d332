import { Gauge, type Registry } from 'prom-client'
import type { BudgetStore } from '#shared/adapters/postgres/configuration/budget-store.ts'
import { vendorOf } from '#shared/catalog/deployments-file.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import { BUDGET_AUTHOR } from '#shared/operators/author.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from './sweeper.ts'

export interface BudgetDependencies {
  readonly budgets: BudgetStore
  readonly metrics: Registry
  readonly logger: Logger
}

const EVERY_MS = 10_000

/**
 * Drains the deployments of vendors whose budget of the day (UTC) is spent, and enables them when there is room again:
 * failover, offers and the console follow as from any drain. What operators drained stays drained. A budget can be exceeded by the calls in flight and those of
 * ten seconds. Every worker does this; the first one changes something.
 */
export function enforceBudgets({ budgets, metrics, logger }: BudgetDependencies): Sweep {
  const used = new Gauge({
    name: 'farebox_vendor_budget_used_ratio',
    help: 'Share of the vendor’s budget of the day (UTC) that is spent',
    labelNames: ['vendor'],
    registers: [metrics],
  })
  return {
    name: 'drained or enabled deployments by budgets',
    leastIntervalMs: EVERY_MS,
    run: async () => {
      const configuration = await budgets.readConfiguration()
      const { deployments = [], vendor_budgets: limits = {} } = configuration?.deployments.file ?? {}
      const controls = await budgets.readDeploymentControls()
      const isOurs = (name: string) => controls.get(name)?.operator === BUDGET_AUTHOR.operator
      if (Object.keys(limits).length === 0 && !deployments.some(({ name }) => isOurs(name))) {
        used.reset()
        return 0
      }
      const spent = await budgets.readSpentToday()
      used.reset()
      const exhausted = new Map<string, string>()
      for (const [vendor, { usd_per_day: dollars }] of Object.entries(limits)) {
        const own = deployments.filter((entry) => vendorOf(entry) === vendor)
        const sum = own.reduce((total, { name }) => total + (spent.get(name) ?? 0n), 0n)
        const limit = atomicFromDollars(dollars)
        used.set({ vendor }, Number(sum) / Number(limit))
        if (sum >= limit) exhausted.set(vendor, dollars)
      }
      let changed = 0
      for (const entry of deployments) {
        const dollars = exhausted.get(vendorOf(entry))
        const isDrained = controls.get(entry.name)?.isDrained ?? false
        if (dollars === undefined ? !(isDrained && isOurs(entry.name)) : isDrained) continue
        const reason =
          dollars === undefined
            ? `${vendorOf(entry)} is within its budget of the day`
            : `the budget of ${vendorOf(entry)}, ${dollars} USD a day, is spent`
        const change = { deployment: entry.name, isDrained: dollars !== undefined, reason }
        const { outcome } = await budgets.controlDeployment(BUDGET_AUTHOR, change)
        if (outcome !== 'changed') continue
        changed += 1
        logger.warn(reason, { deployment: entry.name })
      }
      return changed
    },
  }
}
