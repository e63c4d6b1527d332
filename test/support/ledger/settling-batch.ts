import type { LeasedJob, StoredSettlement } from '#shared/jobs/job.ts'
import { jobInState, rereadJob } from './job-in-state.ts'
import { newTestJob, type TestJob } from './new-test-job.ts'
import { testAuthorization } from './test-authorization.ts'
import { newTestBatch, recordingOf, stored, TEST_CONTRACT, type TestBatch } from './test-batch.ts'
import type { TestLedger } from './test-ledger.ts'

/** A job that is settled in a batch. */
export interface BatchedJob {
  readonly request: TestJob
  readonly job: LeasedJob
  readonly settlement: StoredSettlement
}

/** Returns a request whose payer signed the settlement contract. */
function contractJob(): TestJob {
  return newTestJob({ authorization: testAuthorization({ facilitator: TEST_CONTRACT }) })
}

/** Returns jobs with a result, whose payers signed the settlement contract. */
export async function generatedJobs(ledger: TestLedger, count: number): Promise<LeasedJob[]> {
  return await Promise.all(Array.from({ length: count }, () => jobInState(ledger, 'generated', contractJob())))
}

/** Records new jobs as one batch. */
export async function settlingBatch(
  ledger: TestLedger,
  count: number,
  batch: TestBatch = newTestBatch(),
): Promise<readonly BatchedJob[]> {
  const requests = Array.from({ length: count }, contractJob)
  const jobs = await Promise.all(requests.map((request) => jobInState(ledger, 'generated', request)))
  const outcomes = await ledger.settlement.recordBatch(
    jobs.map((job) => recordingOf(job)),
    batch,
  )
  return await Promise.all(
    requests.map(async (request, index) => ({
      request,
      job: await rereadJob(ledger, claimed(jobs[index])),
      settlement: stored(outcomes[index]),
    })),
  )
}

function claimed(job: LeasedJob | undefined): LeasedJob {
  if (!job) throw new Error('a request without a job')
  return job
}
