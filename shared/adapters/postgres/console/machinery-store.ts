import type { MachineryStore } from '#shared/operators/machinery-store.ts'
import type { Pool } from '../pool.ts'
import { readUnfinishedTotals } from '../queue-totals.ts'
import { readDeploymentHealth, wasCalled } from './deployment-health.ts'
import { readFailures, readIntervals } from './deployment-history.ts'
import { readOldestJobs } from './oldest-jobs.ts'

/** Creates the store of what the console shows about providers and queues. */
export function createMachineryStore(pool: Pool): MachineryStore {
  return {
    readQueueTotals: async () => (await readUnfinishedTotals(pool)).queues,
    readOldestJobs: (queue, limit) => readOldestJobs(pool, queue, limit),
    readDeploymentHealth: (names, window) => readDeploymentHealth(pool, names, window),
    readFailures: (name, window) => readFailures(pool, name, window),
    readIntervals: (name, window) => readIntervals(pool, name, window),
    wasCalled: (name) => wasCalled(pool, name),
  }
}
