import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { findExhaustedBudget } from '../admission/find-exhausted-budget.ts'
import { readExposure } from '../admission/read-exposure.ts'
import type { Pool } from '../pool.ts'
import { openStagedUpload } from '../retention/staged-uploads.ts'
import { claimJob, deferJob, releaseJob } from './claim-job.ts'
import { failJob } from './fail-job.ts'
import { handOverJob } from './hand-over-job.ts'
import { readEffectiveRequest } from './read-effective-request.ts'
import { renewLeases } from './renew-leases.ts'
import { sealResult } from './seal-result.ts'
import { startAttempt } from './start-attempt.ts'
import { takeDueJobs } from './take-due-jobs.ts'

/** Creates the workers' store of jobs over one pool. */
export function createExecutionStore(pool: Pool, budget: UnchargedBudget): ExecutionStore {
  return {
    claimJob: (jobId, leaseMs) => claimJob(pool, jobId, leaseMs),
    renewLeases: (jobs, leaseMs) => renewLeases(pool, jobs, leaseMs),
    deferJob: (job, delayMs, isPaymentBlocked = false) => deferJob(pool, job, delayMs, isPaymentBlocked),
    releaseJob: (job) => releaseJob(pool, job),
    handOverJob: (job) => handOverJob(pool, job),
    takeDueJobs: (states, limit, pausedQueues) => takeDueJobs(pool, states, limit, pausedQueues),
    readEffectiveRequest: (jobId) => readEffectiveRequest(pool, jobId),
    openStagedUpload: (stagedUploadId) => openStagedUpload(pool, stagedUploadId),
    readExposureAhead: (job, since) => readExposureAhead(pool, job, since, budget),
    startAttempt: (job, deployment, failed) => startAttempt(pool, job, deployment, failed),
    sealResult: (job, attemptId, sealed, media) => sealResult(pool, job, attemptId, sealed, media),
    failJob: (job, failure) => failJob(pool, job, failure),
  }
}

async function readExposureAhead(
  pool: Pool,
  job: ClaimedJob,
  since: Parameters<ExecutionStore['readExposureAhead']>[1],
  budget: UnchargedBudget,
): ReturnType<ExecutionStore['readExposureAhead']> {
  const { payer } = job.authorization
  const { windowSeconds } = budget
  const { uncharged, ...exposure } = await readExposure(pool, payer, { ...since, aheadOf: job, windowSeconds })
  return { ...exposure, exhausted: await findExhaustedBudget(pool, payer, uncharged, budget) }
}
