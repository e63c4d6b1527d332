import type { ExecutionStore } from '#shared/adapters/postgres/execution/execution-store.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Deferral, Ending } from './step-outcome.ts'

export interface DeferralDependencies {
  readonly executionStore: Pick<ExecutionStore, 'deferJob' | 'failJob'>
  readonly settlementStore: Pick<JobSettlementStore, 'failSettlement' | 'markForReview'>
  /** How long a job may be deferred before it ends, by how it ends. */
  readonly longestDeferralMs: Readonly<Record<Ending, number>>
  readonly logger: Logger
}

/**
 * Defers a job, or ends it once it has been deferred for too long in its state. The limits are the service's own: a
 * payer's authorization may be valid indefinitely.
 */
export async function deferJob(dependencies: DeferralDependencies, job: ClaimedJob, deferral: Deferral): Promise<void> {
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
  { longestDeferralMs: limits }: Pick<DeferralDependencies, 'longestDeferralMs'>,
  { deferredMs, paymentBlockedMs }: ClaimedJob,
  ending: Ending,
): boolean {
  return ending === 'owe'
    ? paymentBlockedMs >= limits.owe || deferredMs >= limits.withhold
    : deferredMs >= limits[ending]
}

async function endJob(
  { executionStore, settlementStore }: DeferralDependencies,
  job: ClaimedJob,
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
