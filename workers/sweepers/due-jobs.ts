import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { JobState } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200

interface EnqueuingDependencies {
  readonly executionStore: Pick<ExecutionStore, 'takeDueJobs'>
  readonly queue: Pick<JobQueue, 'enqueue'>
  /** Nobody takes messages of these: their jobs would be enqueued over and over. */
  readonly pausedQueues: ReadonlySet<QueueName>
}

/** Enqueues accepted jobs that the API could not enqueue, or that the queue lost. */
export function enqueueAccepted(dependencies: EnqueuingDependencies): Sweep {
  return { name: 'enqueued accepted jobs', batch: BATCH, run: () => enqueueDue(dependencies, ['accepted']) }
}

/** Enqueues jobs with a result whose charge is not settled yet. */
export function reconcileSettlements(dependencies: EnqueuingDependencies): Sweep {
  return { name: 'resumed settlements', batch: BATCH, run: () => enqueueDue(dependencies, ['generated', 'settling']) }
}

async function enqueueDue(
  { executionStore, queue, pausedQueues }: EnqueuingDependencies,
  states: readonly JobState[],
): Promise<number> {
  const jobs = await executionStore.takeDueJobs(states, BATCH, pausedQueues)
  for (const job of jobs) await queue.enqueue(job.id, queueOf(job))
  return jobs.length
}

/**
 * Ends provider calls whose worker was lost. `run` runs a job: it ends its provider call, or starts the grace period of
 * the worker that was lost. Not through the queue: there is nothing to do but to write the failure, and the caller, who
 * must decide whether to pay again, would wait behind the work of others.
 */
export function endLostCalls({
  executionStore,
  run,
}: Pick<EnqueuingDependencies, 'executionStore'> & { readonly run: (jobId: string) => Promise<void> }): Sweep {
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
