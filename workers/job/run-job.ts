import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { callProvider, failLostAttempt, type GenerationDependencies } from './call-provider.ts'
import { type DeferralDependencies, deferJob } from './defer-job.ts'
import type { SettlementSteps } from './settlement-steps.ts'
import type { StepOutcome } from './step-outcome.ts'

export interface RunJobDependencies extends GenerationDependencies, DeferralDependencies {
  readonly settlementSteps: SettlementSteps
  readonly executionStore: ExecutionStore
  readonly logger: Logger
  readonly leaseMs: number
  readonly queue: Pick<JobQueue, 'enqueue'>
  /** The queues of this process. A job whose next step belongs to another queue is handed over. */
  readonly serves: ReadonlySet<QueueName>
  /** The jobs under this process's lease, which are handed back when it stops. */
  readonly claimedJobs: Set<ClaimedJob>
}

/**
 * Runs the state loop of a job: takes its lease and runs its steps until it is finished or must wait. Safe to call for
 * any id at any time, even concurrently: without the lease it does nothing. Throws only when the ledger cannot be
 * reached.
 */
export async function runJob(dependencies: RunJobDependencies, jobId: string): Promise<void> {
  const { executionStore, tracer, leaseMs } = dependencies
  const job = await executionStore.claimJob(jobId, leaseMs)
  if (job) await tracer.continueRequest(job, () => runSteps(dependencies, job))
}

/** Runs step after step under one claim. */
async function runSteps(dependencies: RunJobDependencies, firstClaim: ClaimedJob): Promise<void> {
  let job: ClaimedJob | null = firstClaim
  while (job) {
    const claimed: ClaimedJob = job
    if (!dependencies.serves.has(queueOf(claimed))) return handOver(dependencies, claimed)
    const outcome: StepOutcome = await withRenewedLease(dependencies, claimed, (signal) =>
      runStep(dependencies, claimed, signal),
    )
    if (outcome.next === 'later') return deferJob(dependencies, claimed, outcome)
    job = outcome.next === 'moved' ? movedFrom(claimed, outcome.job) : null
  }
}

/** Returns the moved job. Its deferrals in the previous state do not count in the new one. */
function movedFrom(previous: ClaimedJob, job: ClaimedJob): ClaimedJob {
  return job.state === previous.state ? job : { ...job, deferredMs: 0, paymentBlockedMs: 0 }
}

type HandingOver = Pick<RunJobDependencies, 'executionStore' | 'queue' | 'logger'>

/**
 * Hands the job over to a worker that serves its next queue. While that queue cannot be reached, the job is left to the
 * sweeper.
 */
async function handOver({ executionStore, queue, logger }: HandingOver, job: ClaimedJob): Promise<void> {
  const handedOver = await executionStore.handOverJob(job)
  if (!handedOver) return
  try {
    await queue.enqueue(job.id, queueOf(handedOver))
  } catch (error) {
    logger.warn('job not enqueued; the sweeper will enqueue it', { jobId: job.id, state: handedOver.state, error })
    await executionStore.releaseJob(handedOver)
  }
}

/**
 * Releases every job of this process, so other workers resume them immediately instead of after the lease expires.
 * Later writes of a step that still runs here are fenced off.
 */
export async function handBackJobs(dependencies: HandingOver & Pick<RunJobDependencies, 'claimedJobs'>): Promise<void> {
  await Promise.allSettled([...dependencies.claimedJobs].map((job) => handOver(dependencies, job)))
}

/** Decides which step a state needs next; the only place that does. */
async function runStep(dependencies: RunJobDependencies, job: ClaimedJob, signal: AbortSignal): Promise<StepOutcome> {
  switch (job.state) {
    case 'accepted':
      return callProvider(dependencies, job, signal)
    case 'generating':
      return failLostAttempt(dependencies, job)
    case 'generated':
      return dependencies.settlementSteps.recordSettlement(job)
    case 'settling':
      return dependencies.settlementSteps.settleCharge(job)
  }
}

/** Renews the lease while a step runs. `signal` aborts when the lease is lost; writes after that have no effect. */
async function withRenewedLease(
  { executionStore, logger, leaseMs, claimedJobs }: RunJobDependencies,
  job: ClaimedJob,
  step: (signal: AbortSignal) => Promise<StepOutcome>,
): Promise<StepOutcome> {
  const lost = new AbortController()
  const renewal = setInterval(() => {
    executionStore
      .renewLease(job, leaseMs)
      .then((written) => written === 'stale' && lost.abort())
      // A later renewal may succeed before the lease expires; if none does, the fence decides.
      .catch((error: unknown) => logger.warn('lease not renewed', { jobId: job.id, error }))
  }, leaseMs / 3)
  claimedJobs.add(job)
  try {
    return await step(lost.signal)
  } finally {
    clearInterval(renewal)
    claimedJobs.delete(job)
  }
}
