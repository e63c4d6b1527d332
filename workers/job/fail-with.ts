import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import { finished, type StepOutcome } from './step-outcome.ts'

/** Ends the job uncharged. */
export async function failWith(
  store: Pick<ExecutionStore, 'failJob'>,
  job: ClaimedJob,
  failure: Parameters<ExecutionStore['failJob']>[1],
): Promise<StepOutcome> {
  return finished(await store.failJob(job, failure))
}
