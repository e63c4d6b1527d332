import type { Registry } from 'prom-client'
import type { ProcessReportStore } from '#shared/ledger/configuration/process-report-store.ts'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { findKeyProblems } from '#shared/operators/key-problems.ts'
import { addTotals, sharedReading } from './ledger-metrics.ts'

interface KeyMetricsDependencies {
  readonly reportsStore: Pick<ReportsStore, 'readKeyUse'>
  readonly processReports: Pick<ProcessReportStore, 'readProcesses'>
}

/** Adds the number of keys with which calls fail, the same in every worker. It is left out when it cannot be read. */
export function addKeyMetrics(registry: Registry, { reportsStore, processReports }: KeyMetricsDependencies): void {
  const read = sharedReading(async () => {
    const [seen, use] = await Promise.all([processReports.readProcesses(), reportsStore.readKeyUse()])
    return findKeyProblems(
      seen.filter(({ isRunning }) => isRunning),
      use,
    ).length
  })
  addTotals(registry, read, [
    {
      name: 'farebox_key_problems',
      help: 'Keys that a running process uses and another one does not accept, and settlement keys that unfinished calls need and no settler has',
      labelNames: [],
      show: (gauge, problems) => gauge.set(problems),
    },
  ])
}
