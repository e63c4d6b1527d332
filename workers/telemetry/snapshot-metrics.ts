import type { Registry } from 'prom-client'
import type { ReportsStore } from '#shared/ledger/reports/reports-store.ts'
import { addTotals, sharedReading } from './ledger-metrics.ts'

/** Adds the age of the oldest snapshot, the same in every worker. It is left out when it cannot be read. */
export function addSnapshotMetrics(registry: Registry, reportsStore: Pick<ReportsStore, 'readOldestSnapshot'>): void {
  const read = sharedReading(() => reportsStore.readOldestSnapshot())
  addTotals(registry, read, [
    {
      name: 'farebox_database_oldest_snapshot_transactions',
      help: 'Transactions with changes that began since the oldest open snapshot or transaction of the ledger’s database, of which PostgreSQL keeps every row version',
      labelNames: [],
      show: (gauge, transactions) => gauge.set(transactions),
    },
  ])
}
