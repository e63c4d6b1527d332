import type { LeasedJob } from '#shared/jobs/job.ts'
import type { EarlierSettlement } from '#shared/ledger/settlement/earlier-settlements.ts'
import { moved, type StepOutcome } from '../job/step-outcome.ts'
import type { SettlementDependencies } from './dependencies.ts'
import { requireSealed } from './finish-settlement.ts'

/** `unclear`: it may have charged the payer, or still may. */
export type EarlierCharge = 'charged' | 'failed' | 'unclear'

export type EarlierLookUp =
  | { outcome: 'none_charged'; settlementIds: readonly string[] }
  /** The job continues with `step` instead of settling its current authorization. */
  | { outcome: 'decided'; step: StepOutcome }

/** Delay before the next lookup; a nonce that a reorganization released is used again within moments. */
const RETRY_MS = 1000

/**
 * Looks up the settlements of the job's earlier authorizations before another one is settled. They had failed, but a
 * reorganization may have replaced the block that proved it. One that charged the payer settles the job, and the
 * current authorization is not used.
 */
export async function lookUpEarlier(
  { settlementStore, logger }: SettlementDependencies,
  job: LeasedJob,
  findCharge: (earlier: EarlierSettlement) => Promise<EarlierCharge>,
): Promise<EarlierLookUp> {
  const settlementIds: string[] = []
  for (const earlier of await settlementStore.readEarlierSettlements(job)) {
    const charge = await findCharge(earlier)
    if (charge === 'charged') {
      logger.warn('an earlier settlement charged the payer after a reorganization', { jobId: job.id })
      const adopted = await settlementStore.adoptSettlement(job, earlier)
      return { outcome: 'decided', step: moved(adopted, chargedBy(job, earlier)) }
    }
    if (charge === 'unclear') {
      const reason = 'an earlier settlement may still charge the payer'
      return { outcome: 'decided', step: { next: 'later', delayMs: RETRY_MS, reason, ending: 'withhold' } }
    }
    settlementIds.push(earlier.settlementId)
  }
  return { outcome: 'none_charged', settlementIds }
}

function chargedBy(job: LeasedJob, { authorizationId, authorization, chargeAmount }: EarlierSettlement): LeasedJob {
  return {
    ...job,
    state: 'settling',
    authorizationId,
    authorization,
    quotedMaximum: job.quotedMaximum > chargeAmount ? job.quotedMaximum : chargeAmount,
    sealed: { ...requireSealed(job), chargeAmount },
    settlement: null,
  }
}
