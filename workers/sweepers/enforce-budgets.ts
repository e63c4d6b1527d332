import { Gauge, type Registry } from 'prom-client'
import { vendorOf } from '#shared/catalog/deployments-file.ts'
import type { BudgetStore, Spent } from '#shared/ledger/configuration/budget-store.ts'
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
/** Longer than any transaction: attempts that ended before are all visible, and their cost no longer changes. */
const STABLE_AFTER_MS = 10 * 60_000

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
  const readSpentToday = createSpentReader(budgets)
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
      const spent = await readSpentToday()
      used.reset()
      const exhausted = new Map<string, string>()
      for (const [vendor, { usd_per_day: dollars }] of Object.entries(limits)) {
        const own = spent.filter((each) => each.vendor === vendor)
        const sum = own.reduce((total, { amount }) => total + amount, 0n)
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

/** Reads what was spent since midnight (UTC); of a day with a million attempts, only what ended since the last time. */
function createSpentReader({ readSpent }: Pick<BudgetStore, 'readSpent'>): () => Promise<readonly Spent[]> {
  let until = new Date(0)
  let stable: readonly Spent[] = []
  return async () => {
    const now = Date.now()
    const midnight = new Date(now)
    midnight.setUTCHours(0, 0, 0, 0)
    const [from, kept] = until < midnight ? [midnight, []] : [until, stable]
    const next = new Date(Math.max(from.getTime(), now - STABLE_AFTER_MS))
    const read = await readSpent(from, next)
    stable = sumOf([...kept, ...read.filter(({ isStable }) => isStable)])
    until = next
    return [...stable, ...read.filter(({ isStable }) => !isStable)]
  }
}

function sumOf(parts: readonly Spent[]): readonly Spent[] {
  const sums = new Map<string, Spent>()
  for (const part of parts) {
    const key = JSON.stringify([part.vendor, part.deployment])
    sums.set(key, { ...part, amount: part.amount + (sums.get(key)?.amount ?? 0n) })
  }
  return [...sums.values()]
}
