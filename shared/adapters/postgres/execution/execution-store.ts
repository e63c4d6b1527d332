import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import { readExposure } from '../admission/read-exposure.ts'
import type { Pool } from '../pool.ts'
import { openStagedUpload } from '../retention/staged-uploads.ts'
import { claimJob, releaseJob, renewLease } from './claim-job.ts'
import { failJob } from './fail-job.ts'
import { handOverJob } from './hand-over-job.ts'
import { sealResult } from './seal-result.ts'
import { startAttempt } from './start-attempt.ts'
import { takeDueJobs } from './take-due-jobs.ts'

/** Creates the workers' store of jobs over one pool. */
export function createExecutionStore(pool: Pool): ExecutionStore {
  return {
    claimJob: (jobId, leaseMs) => claimJob(pool, jobId, leaseMs),
    renewLease: (job, leaseMs) => renewLease(pool, job, leaseMs),
    releaseJob: (job, delayMs) => releaseJob(pool, job, delayMs),
    handOverJob: (job) => handOverJob(pool, job),
    takeDueJobs: (states, limit) => takeDueJobs(pool, states, limit),
    openStagedUpload: (stagedUploadId) => openStagedUpload(pool, stagedUploadId),
    readExposureAhead: (job, since) => readExposure(pool, job.authorization.payer, { ...since, aheadOf: job }),
    startAttempt: (job, deployment, failed) => startAttempt(pool, job, deployment, failed),
    sealResult: (job, attemptId, sealed, media) => sealResult(pool, job, attemptId, sealed, media),
    failJob: (job, failure) => failJob(pool, job, failure),
  }
}
