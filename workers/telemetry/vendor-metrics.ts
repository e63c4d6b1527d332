import { Counter, Gauge, type Registry } from 'prom-client'
import type { ExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'

/** Wraps the execution store to count what vendors bill for the calls of this process. */
export function measuredExecutionStore(registry: Registry, executionStore: ExecutionStore): ExecutionStore {
  const billed = new Counter({
    name: 'farebox_vendor_cost_usdc_atomic_total',
    help: 'What vendors bill for the calls of this process, in atomic USDC at the prices of their deployments',
    labelNames: ['outcome'],
    registers: [registry],
  })
  for (const outcome of ['sealed', 'failed']) billed.inc({ outcome }, 0)
  return {
    ...executionStore,
    sealResult: async (job, attemptId, sealed, media, vendorCost) => {
      const written = await executionStore.sealResult(job, attemptId, sealed, media, vendorCost)
      if (written === 'written' && vendorCost) billed.inc({ outcome: 'sealed' }, Number(vendorCost))
      return written
    },
    failJob: async (job, failure) => {
      const written = await executionStore.failJob(job, failure)
      const vendorCost = failure.measured?.vendorCost
      if (written === 'written' && vendorCost) billed.inc({ outcome: 'failed' }, Number(vendorCost))
      return written
    },
  }
}

/** Adds the operator's least margin of a day, which alerts compare with. */
export function addMarginLimit(registry: Registry, minimum: AtomicAmount): void {
  const least = new Gauge({
    name: 'farebox_minimum_daily_margin_usdc_atomic',
    help: 'MINIMUM_DAILY_MARGIN_USDC: charges of 24 hours, less vendors and gas, below which there is an alert',
    registers: [registry],
  })
  least.set(Number(minimum))
}
