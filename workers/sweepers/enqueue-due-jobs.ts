import type { JobState } from '#shared/jobs/job.ts'
import type { JobQueue } from '#shared/jobs/job-queue.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Sweep } from './start-sweepers.ts'

const BATCH = 200

interface Dependencies {
  readonly store: Pick<ExecutionStore, 'takeDueJobs'>
  readonly queue: Pick<JobQueue, 'enqueue'>
}

/** Accepted jobs that the API could not enqueue, or that the queue lost. */
export function enqueueAccepted(dependencies: Dependencies): Sweep {
  return { name: 'enqueued accepted jobs', run: () => enqueueDue(dependencies, ['accepted']) }
}

/** Jobs whose worker is gone, or that were put off, during generation. */
export function resumeStalled(dependencies: Dependencies): Sweep {
  return { name: 'resumed stalled jobs', run: () => enqueueDue(dependencies, ['generating', 'generated']) }
}

/** Settlements without a proof yet: the stored transaction is sent again and looked up again. */
export function reconcileSettlements(dependencies: Dependencies): Sweep {
  return { name: 'resumed settlements', run: () => enqueueDue(dependencies, ['settling']) }
}

async function enqueueDue({ store, queue }: Dependencies, states: readonly JobState[]): Promise<number> {
  const jobIds = await store.takeDueJobs(states, BATCH)
  for (const jobId of jobIds) await queue.enqueue(jobId)
  return jobIds.length
}
