import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { EarlierSettlement, JobSettlementStore, RecordingOutcome } from '#shared/jobs/settlement-store.ts'
import type { PreparedSettlement, Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { StepContext, StepOutcome } from '../../job/step-outcome.ts'
import { type FinishSettlementDependencies, failSettlement, requireSealed } from '../finish-settlement.ts'
import { type EarlierSettlementDependencies, lookUpEarlier } from '../look-up-earlier.ts'
import { findEarlierCharge } from './find-earlier-charge.ts'
import type { SettlementBatches } from './gather-batches.ts'
import { whileNotListed, whileUnprepared } from './while-unprepared.ts'

export interface RecordingDependencies {
  readonly settlementStore: Pick<JobSettlementStore, 'recordSettlement'> &
    FinishSettlementDependencies['settlementStore'] &
    EarlierSettlementDependencies['settlementStore']
  readonly settler: Settler
  readonly batches: Pick<SettlementBatches, 'record'>
  readonly logger: Logger
}

/**
 * Moves generated → settling: signs the transaction that settles the charge, and stores it. A payer who signed the
 * settlement contract is settled in a batch with those that are ready at the same time. A job that was settled before
 * with another authorization is first looked up on chain: a reorganization may have let that settlement succeed, and
 * then it is the one that is charged.
 */
export async function recordSettlement(
  dependencies: RecordingDependencies,
  job: ClaimedJob,
  context: StepContext,
  lookedUp: readonly string[] = [],
): Promise<StepOutcome> {
  const { settler, logger } = dependencies
  const findCharge = (earlier: EarlierSettlement) => findEarlierCharge(settler, earlier)
  const prepared = await settler.prepare(job.authorization, requireSealed(job).chargeAmount)
  if (prepared.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
    return whileUnprepared(settler, job)
  }
  if (prepared.outcome === 'not_listed') return whileNotListed(dependencies, job)
  if (prepared.outcome === 'refused') {
    const earlier = await lookUpEarlier(dependencies, job, findCharge)
    return earlier.outcome === 'none_charged' ? failSettlement(dependencies, job, prepared.code) : earlier.step
  }
  const settlement = await record(dependencies, job, prepared, { context, lookedUp })
  if (settlement === 'settled_before') {
    const earlier = await lookUpEarlier(dependencies, job, findCharge)
    if (earlier.outcome !== 'none_charged') return earlier.step
    return recordSettlement(dependencies, job, context, earlier.settlementIds)
  }
  return settlement === 'stale' ? { next: 'stale' } : { next: 'moved', job: { ...job, state: 'settling', settlement } }
}

async function record(
  { settlementStore, settler, batches }: RecordingDependencies,
  job: ClaimedJob,
  { terms, sender, contract, affordableGas, minimumAccountNonce }: Extract<PreparedSettlement, { outcome: 'ready' }>,
  { context, lookedUp }: { readonly context: StepContext; readonly lookedUp: readonly string[] },
): Promise<RecordingOutcome> {
  const { authorization } = job
  const { chargeAmount } = requireSealed(job)
  if (contract === null)
    return await settlementStore.recordSettlement(job, {
      chargeAmount,
      minimumAccountNonce,
      sign: (accountNonce) => settler.sign(authorization, chargeAmount, terms, accountNonce),
      lookedUp,
    })
  // From now on it only waits: for others, and for the chain.
  context.releasePlace()
  const charge = { authorization, chargeAmount, terms }
  return await batches.record({ job, charge, lookedUp }, { sender, contract, affordableGas, minimumAccountNonce })
}
