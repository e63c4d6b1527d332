import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Screener } from '../screening/screener.ts'
import type { StepOutcome } from '../step-outcome.ts'
import { failWith } from './fail-with.ts'

/** Asks safety screening about a request's texts. `null` when it may go on. */
export async function screenRequest(
  { store, screener }: { store: Pick<ExecutionStore, 'failJob'>; screener: Screener },
  job: ClaimedJob,
  texts: readonly string[],
): Promise<StepOutcome | null> {
  const screening = await screener.screen(texts)
  switch (screening.outcome) {
    case 'passed':
      return null
    case 'rejected':
      return failWith(store, job, { code: 'content_rejected', reason: screening.reason, attempt: 'none' })
    case 'unavailable':
      return failWith(store, job, { code: 'screening_unavailable', reason: screening.reason, attempt: 'none' })
  }
}
