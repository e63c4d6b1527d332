import type { ExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import { finished, type StepOutcome } from './step-outcome.ts'

/** Fails the job without a charge. */
export async function failWith(
  executionStore: Pick<ExecutionStore, 'failJob'>,
  job: ClaimedJob,
  failure: Parameters<ExecutionStore['failJob']>[1],
): Promise<StepOutcome> {
  return finished(await executionStore.failJob(job, failure))
}
