import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import type { Pool } from '../pool.ts'
import { openStagedUpload } from '../retention/staged-uploads.ts'
import { createJobClaimer, deferJob, releaseJob, wakeJob } from './claim-job.ts'
import { failJob } from './fail-job.ts'
import { handOverJob } from './hand-over-job.ts'
import { readEffectiveRequest } from './read-effective-request.ts'
import { createExposureAheadReader } from './read-exposure-ahead.ts'
import { renewLeases } from './renew-leases.ts'
import { createResultSealer } from './seal-result.ts'
import { createAttemptStarter } from './start-attempt.ts'
import { takeDueJobs } from './take-due-jobs.ts'

/** Creates the workers' store of jobs over one pool. */
export function createExecutionStore(pool: Pool, budget: UnchargedBudget): ExecutionStore {
  return {
    claimJob: createJobClaimer(pool),
    renewLeases: (jobs, leaseMs) => renewLeases(pool, jobs, leaseMs),
    deferJob: (job, delayMs, isPaymentBlocked = false) => deferJob(pool, job, delayMs, isPaymentBlocked),
    releaseJob: (job) => releaseJob(pool, job),
    wakeJob: (job) => wakeJob(pool, job),
    handOverJob: (job) => handOverJob(pool, job),
    takeDueJobs: (states, limit, pausedQueues) => takeDueJobs(pool, states, limit, pausedQueues),
    readEffectiveRequest: (jobId) => readEffectiveRequest(pool, jobId),
    openStagedUpload: (stagedUploadId) => openStagedUpload(pool, stagedUploadId),
    readExposureAhead: createExposureAheadReader(pool, budget),
    startAttempt: createAttemptStarter(pool),
    sealResult: createResultSealer(pool),
    failJob: (job, failure) => failJob(pool, job, failure),
  }
}
