import { Counter, Gauge, type Registry } from 'prom-client'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { JobMemory } from '../job/job-memory.ts'

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

/** Adds the memory that the jobs of this process have reserved, and those that wait for it. */
export function addMemoryMetrics(registry: Registry, memory: Pick<JobMemory, 'current'>): void {
  const register = { registers: [registry] }
  const bytes = new Gauge({
    name: 'farebox_job_memory_bytes',
    help: 'Memory for what jobs hold: reserved, and the limit (MAXIMUM_JOB_MEGABYTES)',
    labelNames: ['of'],
    ...register,
    collect: () => {
      const { reservedBytes, limitBytes } = memory.current()
      bytes.set({ of: 'reserved' }, reservedBytes)
      bytes.set({ of: 'limit' }, limitBytes)
    },
  })
  const waiting = new Gauge({
    name: 'farebox_jobs_waiting_for_memory',
    help: 'Jobs that this process has claimed and that wait for memory',
    ...register,
    collect: () => {
      waiting.set(memory.current().waitingJobs)
    },
  })
  const longest = new Gauge({
    name: 'farebox_job_memory_wait_seconds',
    help: 'How long the first of the jobs that wait for memory has waited; 0 when none waits',
    ...register,
    collect: () => {
      longest.set(memory.current().longestWaitMs / 1000)
    },
  })
}
