import type { JobState } from '#shared/jobs/job.ts'
import { type JobQueue, queueOf } from '#shared/jobs/job-queue.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Sweep } from './sweeper.ts'

const BATCH = 200

interface Dependencies {
  readonly store: Pick<ExecutionStore, 'takeDueJobs'>
  readonly queue: Pick<JobQueue, 'enqueue'>
}

/** Accepted jobs that the API could not enqueue, or that the queue lost. */
export function enqueueAccepted(dependencies: Dependencies): Sweep {
  return { name: 'enqueued accepted jobs', run: () => enqueueDue(dependencies, ['accepted']) }
}

/** Jobs whose worker is gone during generation. */
export function resumeStalled(dependencies: Dependencies): Sweep {
  return { name: 'resumed stalled jobs', run: () => enqueueDue(dependencies, ['generating']) }
}

/** Stored results whose charge is not collected yet; a stored transaction is sent again and looked up again. */
export function reconcileSettlements(dependencies: Dependencies): Sweep {
  return { name: 'resumed settlements', run: () => enqueueDue(dependencies, ['generated', 'settling']) }
}

async function enqueueDue({ store, queue }: Dependencies, states: readonly JobState[]): Promise<number> {
  const jobs = await store.takeDueJobs(states, BATCH)
  for (const job of jobs) await queue.enqueue(job.id, queueOf(job))
  return jobs.length
}
