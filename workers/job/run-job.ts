import type { ClaimedJob } from '#shared/jobs/job.ts'
import { type JobQueue, type QueueName, queueOf } from '#shared/jobs/job-queue.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { SettlementSteps } from '../settlement/settlement-steps.ts'
import { callProvider, failLostAttempt, type GenerationDependencies } from './call-provider.ts'
import type { StepOutcome } from './step-outcome.ts'

export interface RunJobDependencies extends GenerationDependencies {
  readonly settlementSteps: SettlementSteps
  readonly store: ExecutionStore
  readonly logger: Logger
  readonly leaseMs: number
  readonly queue: Pick<JobQueue, 'enqueue'>
  /** The queues of this process: what goes on in another one is handed over. */
  readonly serves: ReadonlySet<QueueName>
  /** The jobs that this process holds at the moment, to be handed back when it must stop. */
  readonly held: Set<ClaimedJob>
}

/**
 * THE STATE LOOP: takes the job's lease and moves it until it is finished or cannot go on. Safe to call for any id at any
 * time, also twice at once: whoever cannot take the lease does nothing. Throws only when the ledger cannot be reached.
 */
export async function runJob(dependencies: RunJobDependencies, jobId: string): Promise<void> {
  const { store, tracer, leaseMs } = dependencies
  const job = await store.claimJob(jobId, leaseMs)
  if (job) await tracer.continueRequest(job, () => moveOn(dependencies, job))
}

/** Step by step, as far as this claim goes. */
async function moveOn(dependencies: RunJobDependencies, claimedAtFirst: ClaimedJob): Promise<void> {
  const { store, logger } = dependencies
  let job: ClaimedJob | null = claimedAtFirst
  while (job) {
    const claimed: ClaimedJob = job
    if (!dependencies.serves.has(queueOf(claimed))) return handOver(dependencies, claimed)
    const outcome: StepOutcome = await withRenewedLease(dependencies, claimed, (signal) =>
      takeStep(dependencies, claimed, signal),
    )
    if (outcome.next === 'later') {
      logger.warn('job put off', { jobId: claimed.id, state: claimed.state, reason: outcome.reason })
      await store.releaseJob(claimed, outcome.delayMs)
    }
    job = outcome.next === 'moved' ? outcome.job : null
  }
}

type HandingOver = Pick<RunJobDependencies, 'store' | 'queue' | 'logger'>

/** Lets a worker that serves the job's next queue go on. A queue that cannot be reached leaves the job to the sweeper. */
async function handOver({ store, queue, logger }: HandingOver, job: ClaimedJob): Promise<void> {
  const handedOver = await store.handOverJob(job)
  if (!handedOver) return
  try {
    await queue.enqueue(job.id, queueOf(handedOver))
  } catch (error) {
    logger.warn('not handed over; the sweeper will', { jobId: job.id, state: handedOver.state, error })
    await store.releaseJob(handedOver, 0)
  }
}

/**
 * Gives up every job still held, so that other workers go on at once instead of when the lease runs out. What a step here still
 * writes afterwards is fenced off.
 */
export async function handBackJobs(dependencies: HandingOver & Pick<RunJobDependencies, 'held'>): Promise<void> {
  await Promise.allSettled([...dependencies.held].map((job) => handOver(dependencies, job)))
}

/** The one place that decides what a state needs next. */
async function takeStep(dependencies: RunJobDependencies, job: ClaimedJob, signal: AbortSignal): Promise<StepOutcome> {
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

/** Keeps the lease while a step runs; `signal` aborts when it is lost, and nothing the step does afterwards counts. */
async function withRenewedLease(
  { store, logger, leaseMs, held }: RunJobDependencies,
  job: ClaimedJob,
  step: (signal: AbortSignal) => Promise<StepOutcome>,
): Promise<StepOutcome> {
  const lost = new AbortController()
  const renewal = setInterval(() => {
    store
      .renewLease(job, leaseMs)
      .then((written) => written === 'stale' && lost.abort())
      // The next renewal may get through before the lease runs out; if none does, the fence decides.
      .catch((error: unknown) => logger.warn('lease not renewed', { jobId: job.id, error }))
  }, leaseMs / 3)
  held.add(job)
  try {
    return await step(lost.signal)
  } finally {
    clearInterval(renewal)
    held.delete(job)
  }
}
