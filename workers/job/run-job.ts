import { type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { callProvider, failLostAttempt } from './call-provider.ts'
import type { JobDependencies } from './dependencies.ts'
import type { Deferral, Ending, SettlementSteps, StepContext, StepOutcome } from './step-outcome.ts'

const KEEPS_SLOT = () => undefined

/**
 * Runs the state loop of a job: takes its lease and runs its steps until it is finished or must wait. Safe to call for
 * any id at any time, even concurrently: without the lease it does nothing. Throws only when the ledger cannot be
 * reached. `releaseSlot` is called when the job only waits for the chain from now on: it needs no slot in its queue.
 */
export async function runJob(
  dependencies: JobDependencies,
  jobId: string,
  releaseSlot: StepContext['releaseSlot'] = KEEPS_SLOT,
): Promise<void> {
  const { executionStore, leases, tracer, leaseMs } = dependencies
  const job = await executionStore.leaseJob(jobId, leaseMs)
  if (!job) return
  const lease = leases.keep(job)
  try {
    await tracer.continueRequest(job, () => runSteps(dependencies, job, { signal: lease.signal, releaseSlot }))
  } finally {
    lease.release()
  }
}

/** Runs step after step under one lease. */
async function runSteps(dependencies: JobDependencies, first: LeasedJob, context: StepContext): Promise<void> {
  let job: LeasedJob | null = first
  let preparing: StepContext['preparing']
  while (job) {
    const leased: LeasedJob = job
    // A lost provider call only has to be ended, which every process can do.
    if (leased.state !== 'generating' && !isTaken(dependencies, queueOf(leased))) return handOver(dependencies, leased)
    const outcome: StepOutcome = await runStep(dependencies, leased, { ...context, preparing })
    if (outcome.next === 'elsewhere') return handOver(dependencies, leased)
    if (outcome.next === 'later') {
      await deferJob(dependencies, leased, outcome)
      return outcome.whenReady?.(() => wakeJob(dependencies, leased))
    }
    job = outcome.next === 'moved' ? movedFrom(leased, outcome.job) : null
    preparing = outcome.next === 'moved' ? outcome.preparing : undefined
  }
}

/** Returns whether this process takes jobs of the queue. Those of a paused one wait there until it is resumed. */
function isTaken({ serves, pausedQueues }: JobDependencies, queue: QueueName): boolean {
  return serves.has(queue) && !pausedQueues.has(queue)
}

/** Returns the moved job. Its deferrals in the previous state do not count in the new one. */
function movedFrom(previous: LeasedJob, job: LeasedJob): LeasedJob {
  return job.state === previous.state ? job : { ...job, deferredMs: 0, paymentBlockedMs: 0 }
}

type HandingOver = Pick<JobDependencies, 'executionStore' | 'queue' | 'logger'>

/**
 * Hands the job over to a worker that serves its next queue. While that queue cannot be reached, the job is left to the
 * sweeper.
 */
async function handOver({ executionStore, queue, logger }: HandingOver, job: LeasedJob): Promise<void> {
  const handedOver = await executionStore.handOverJob(job)
  if (!handedOver) return
  try {
    await queue.enqueue(job.id, queueOf(handedOver))
  } catch (error) {
    logger.warn('job not enqueued; the sweeper will enqueue it', { jobId: job.id, state: handedOver.state, error })
    await executionStore.releaseJob(handedOver)
  }
}

/** Enqueues a job that this worker deferred, unless it has been leased since. Returns whether it did. */
async function wakeJob({ executionStore, queue, logger }: HandingOver, job: LeasedJob): Promise<boolean> {
  try {
    if ((await executionStore.wakeJob(job)) === 'stale') return false
    await queue.enqueue(job.id, queueOf(job))
    return true
  } catch (error) {
    logger.warn('deferred job not woken; the sweeper will enqueue it', { jobId: job.id, error })
    return false
  }
}

/**
 * Releases every job of this process, so other workers resume them immediately instead of after the lease expires.
 * Later writes of a step that still runs here are fenced off.
 */
export async function handBackJobs(dependencies: HandingOver & Pick<JobDependencies, 'leases'>): Promise<void> {
  await Promise.allSettled(dependencies.leases.jobs().map((job) => handOver(dependencies, job)))
}

/** Returns how a settlement is prepared, if it will be the next step in this process. */
function preparationIn(dependencies: JobDependencies): SettlementSteps['prepare'] {
  return isTaken(dependencies, 'settlement') ? dependencies.settlementSteps.prepare : undefined
}

/** Decides which step a state needs next; the only place that does. */
async function runStep(dependencies: JobDependencies, job: LeasedJob, context: StepContext): Promise<StepOutcome> {
  switch (job.state) {
    case 'accepted':
      return callProvider({ ...dependencies, prepareSettlement: preparationIn(dependencies) }, job, context.signal)
    case 'generating':
      return failLostAttempt(dependencies, job)
    case 'generated':
      return dependencies.settlementSteps.recordSettlement(job, context)
    case 'settling':
      return dependencies.settlementSteps.settleCharge(job, context)
  }
}

/**
 * A job whose provider call cannot start, for example because the RPC does not answer, fails uncharged after five
 * minutes. After a day a result whose charge could not be sent because of an outage is withheld without a debt, and a
 * settlement whose transaction is still not on chain needs review.
 */
export const LONGEST_DEFERRAL_MS = { fail: 300_000, withhold: 86_400_000, review: 86_400_000 }

/**
 * Defers a job, or ends it once it has been deferred for too long in its state. The limits are the service's own: a
 * payer's authorization may be valid indefinitely.
 */
async function deferJob(dependencies: JobDependencies, job: LeasedJob, deferral: Deferral): Promise<void> {
  const { executionStore, logger } = dependencies
  const { delayMs, reason, ending } = deferral
  const { id: jobId, state } = job
  if (!isTooLong(dependencies, job, ending)) {
    logger.warn('job deferred', { jobId, state, reason })
    await executionStore.deferJob(job, delayMs, ending === 'owe')
    return
  }
  logger.error('job deferred for too long', { jobId, state, reason, durationMs: job.deferredMs })
  await endJob(dependencies, job, deferral)
}

/** Returns whether the limit has passed. The time of a debt starts when only the payment prevents its settlement. */
function isTooLong(
  { longestDeferralMs: limits }: JobDependencies,
  { deferredMs, paymentBlockedMs }: LeasedJob,
  ending: Ending,
): boolean {
  return ending === 'owe'
    ? paymentBlockedMs >= limits.owe || deferredMs >= limits.withhold
    : deferredMs >= limits[ending]
}

async function endJob(
  { executionStore, settlementStore }: JobDependencies,
  job: LeasedJob,
  { reason, ending }: Deferral,
): Promise<void> {
  const lastReason = `deferred for too long: ${reason}`
  const uncollected = { code: 'settlement_failed', reason: lastReason } as const
  switch (ending) {
    case 'fail':
      await executionStore.failJob(job, { code: 'work_not_started', reason: lastReason, attempt: 'none' })
      return
    case 'owe':
      await settlementStore.failSettlement(job, uncollected, 'unless_expired_before_block')
      return
    case 'withhold':
      await settlementStore.failSettlement(job, uncollected, 'none')
      return
    case 'review':
      await settlementStore.markForReview(job, lastReason)
  }
}
