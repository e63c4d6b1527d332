import type { FailedSettlement } from '#shared/adapters/postgres/settlement/failed-settlements.ts'
import type { SettledAt } from '#shared/adapters/postgres/settlement/finality.ts'
import type { SettlementStore } from '#shared/adapters/postgres/settlement/settlement-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'

export interface ReopeningDependencies {
  readonly settlementStore: Pick<SettlementStore, 'reopenSettlement' | 'judgeFailed'>
  readonly logger: Logger
}

/** Handles a failed settlement that charged the payer after a reorganization. */
export async function reopenSettlement(
  { settlementStore, logger }: ReopeningDependencies,
  { settlementId, jobId }: Pick<FailedSettlement, 'settlementId' | 'jobId'>,
  settledAt: SettledAt,
): Promise<void> {
  switch (await settlementStore.reopenSettlement(settlementId, settledAt)) {
    case 'reopened':
      logger.warn('a failed settlement charged the payer after a reorganization; its job is completed', { jobId })
      break
    case 'surplus':
      logger.error('a payer was charged without need after a reorganization; refund them', { jobId })
      break
    // The next step of the job looks it up; until then it is judged again.
    case 'open':
      await settlementStore.judgeFailed(settlementId, null)
  }
}
