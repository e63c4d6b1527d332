import { Counter, type Registry } from 'prom-client'
import type { Written } from '#shared/jobs/job.ts'
import type { AllowanceWorkStore } from '#shared/ledger/allowances/allowance-store.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import type { GasSpent } from '#shared/payment/facilitator.ts'
import { addTotals, sharedReading } from './ledger-metrics.ts'

/** Wraps the store of sponsored permits to count those that this process finished, and what they cost. */
export function measuredAllowanceStore(registry: Registry, store: AllowanceWorkStore): AllowanceWorkStore {
  const register = { labelNames: ['outcome'], registers: [registry] }
  const finished = new Counter({
    name: 'farebox_sponsored_permits_finished_total',
    help: 'Sponsored permits that this process finished: confirmed or failed',
    ...register,
  })
  const spent = new Counter({
    name: 'farebox_sponsored_gas_usdc_atomic_total',
    help: 'Gas of the sponsored permits that this process finished, in atomic USDC at NATIVE_TOKEN_USD',
    ...register,
  })
  for (const outcome of ['confirmed', 'failed']) {
    finished.inc({ outcome }, 0)
    spent.inc({ outcome }, 0)
  }
  const count = (outcome: string, written: Written, gas: GasSpent | undefined) => {
    if (written !== 'written') return written
    finished.inc({ outcome })
    if (gas) spent.inc({ outcome }, Number(gas.cost))
    return written
  }
  return {
    ...store,
    confirmAllowance: async (claim, granted) =>
      count('confirmed', await store.confirmAllowance(claim, granted), granted.mined?.gas),
    failAllowance: async (claim, failure, mined) =>
      count('failed', await store.failAllowance(claim, failure, mined), mined?.gas),
  }
}

/**
 * Adds the state of sponsored permits from the ledger. Every worker reports the same totals: take the maximum, not the
 * sum. Totals that cannot be read are left out.
 */
export function addSponsoredMetrics(
  registry: Registry,
  { reportsStore }: { readonly reportsStore: Pick<ReportsStore, 'readSponsoredTotals'> },
): void {
  const read = sharedReading(() => reportsStore.readSponsoredTotals())
  addTotals(registry, read, [
    {
      name: 'farebox_sponsored_permits',
      help: 'Sponsored permits in progress: requested, or signed and not confirmed',
      labelNames: ['state'],
      show: (gauge, { counts }) => {
        for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count)
      },
    },
    {
      name: 'farebox_sponsored_permit_oldest_pending_seconds',
      help: 'Age of the oldest sponsored permit in progress; 0 when there is none',
      labelNames: [],
      show: (gauge, { oldestPendingAgeSeconds }) => gauge.set(oldestPendingAgeSeconds),
    },
    {
      name: 'farebox_sponsored_gas_day_wei',
      help: 'Gas of sponsored permits in the last 24 hours, with what those in progress are expected to cost; limited by SPONSORED_GAS_DAILY_MAXIMUM',
      labelNames: [],
      show: (gauge, { dayGasWei }) => gauge.set(Number(dayGasWei)),
    },
  ])
}
