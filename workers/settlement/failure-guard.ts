import type { SettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import type { LeasedJob, Written } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/ledger/execution/execution-store.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

export interface FailureGuardDependencies {
  readonly settlementSearch: SettlementSearch
  readonly settlementStore: SettlementStore
  readonly logger: Logger
}

/**
 * Wraps the store so that a job whose payment is settled on chain, or may be, goes to review instead of failing. After
 * a restore from a backup, workers find jobs that have been settled since: a failure would report to their callers that
 * nothing was charged, and ask them to pay again. After a provider call of this process the payment was verified, so it
 * is not searched.
 */
export function guardExecutionStore(store: ExecutionStore, dependencies: FailureGuardDependencies): ExecutionStore {
  return {
    ...store,
    failJob: async (job, failure) => {
      const isUnverified = failure.attempt === 'none' || failure.isLost === true
      return (isUnverified ? await reviewIfSettled(dependencies, job) : null) ?? (await store.failJob(job, failure))
    },
  }
}

/** Does the same for settlements that fail; one that reverted has proved that nothing was charged. */
export function guardSettlementStore(store: SettlementStore, dependencies: FailureGuardDependencies): SettlementStore {
  return {
    ...store,
    failSettlement: async (job, failure, debt) => {
      const isProved = failure.gas !== undefined && failure.gas !== null
      return (
        (isProved ? null : await reviewIfSettled(dependencies, job)) ?? (await store.failSettlement(job, failure, debt))
      )
    },
  }
}

/** Returns `null` for a job whose payment was not settled, or when the chain cannot be read. */
async function reviewIfSettled(
  { settlementSearch, settlementStore, logger }: FailureGuardDependencies,
  job: LeasedJob,
): Promise<Written | null> {
  const { authorization, acceptedAt, id: jobId } = job
  const found = await settlementSearch.find(authorization, acceptedAt)
  if (found.outcome === 'unexplained') {
    logger.error('a payment is used on chain, and its settlement was not found', { jobId })
    return await settlementStore.markForReview(job, 'the payment is used on chain, and its settlement was not found')
  }
  if (found.outcome !== 'settled') return null
  const reason = `settled in ${found.transaction}, which this ledger does not know`
  const written = await settlementStore.markForReview(job, reason, found)
  // Another worker may have settled a job whose lease is lost.
  if (written === 'written')
    logger.error('a payment was settled that the ledger does not know', { jobId, reason: found.transaction })
  return written
}
