import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import { after, type StepOutcome } from '../step-outcome.ts'

/** Ends the job uncharged. */
export async function failWith(
  store: Pick<ExecutionStore, 'failJob'>,
  job: ClaimedJob,
  failure: Parameters<ExecutionStore['failJob']>[1],
): Promise<StepOutcome> {
  return after(await store.failJob(job, failure), 'finished')
}
