import type { ExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200

interface Dependencies {
  readonly executionStore: Pick<ExecutionStore, 'takeDueJobs'>
  /** Runs a job: ends its provider call, or starts the grace period of the worker that was lost. */
  readonly run: (jobId: string) => Promise<void>
}

/**
 * Ends provider calls whose worker was lost. Not through the queue: there is nothing to do but to write the failure,
 * and the caller, who must decide whether to pay again, would wait behind the work of others.
 */
export function endLostCalls({ executionStore, run }: Dependencies): Sweep {
  return {
    name: 'ended lost provider calls',
    batch: BATCH,
    run: async () => {
      const jobs = await executionStore.takeDueJobs(['generating'], BATCH)
      for (const { id } of jobs) await run(id)
      return jobs.length
    },
  }
}
