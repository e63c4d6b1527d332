import type { LeasedJob } from '#shared/jobs/job.ts'
import type { EarlierSettlement } from '#shared/ledger/settlement/earlier-settlements.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Ending, PreparingSettlement, StepContext, StepOutcome } from '../../job/step-outcome.ts'
import type { KeySettlementDependencies } from '../dependencies.ts'
import { failSettlement, isMediaExpiring, requireSealed, withholdExpiring } from '../finish-settlement.ts'
import { lookUpEarlier } from '../look-up-earlier.ts'
import { findEarlierCharge } from './find-earlier-charge.ts'

/**
 * Moves generated → settling: signs the transaction that settles the charge, and stores it. A payer who signed the
 * settlement contract is settled in a batch with those that are ready at the same time. A job that was settled before
 * with another authorization is first looked up on chain: a reorganization may have let that settlement succeed, and
 * then it is the one that is charged.
 */
export async function recordSettlement(
  dependencies: KeySettlementDependencies,
  job: LeasedJob,
  context: StepContext,
): Promise<StepOutcome> {
  const { settler, batches, logger } = dependencies
  const { chargeAmount } = requireSealed(job)
  const lookUp = () =>
    lookUpEarlier(dependencies, job, (earlier: EarlierSettlement) => findEarlierCharge(settler, earlier))
  const waitsSinceMs = performance.now()
  let lookedUp: readonly string[] = []
  let early = context.preparing
  for (;;) {
    if (isMediaExpiring(dependencies, job)) {
      const earlier = await lookUp()
      return earlier.outcome === 'none_charged' ? withholdExpiring(dependencies, job) : earlier.step
    }
    const { prepared, preparedMs } = await (early ?? prepare(dependencies, job, chargeAmount))
    // While the result could not be stored, the payer may have got the money.
    const isEarlyRefusal = early !== undefined && prepared.outcome !== 'ready'
    early = undefined
    if (isEarlyRefusal) continue
    if (prepared.outcome === 'unreachable') {
      logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
      return whileUnprepared(dependencies, job)
    }
    if (prepared.outcome === 'not_listed') return whileNotListed(dependencies, job)
    if (prepared.outcome === 'refused') {
      const earlier = await lookUp()
      return earlier.outcome === 'none_charged' ? failSettlement(dependencies, job, prepared.code) : earlier.step
    }
    const { terms, ...sender } = prepared
    // In a batch it only waits from now on: for others, and for the chain.
    if (prepared.contract !== null) context.releaseSlot()
    const settlement = await batches.record(
      { job, charge: { authorization: job.authorization, chargeAmount, terms }, lookedUp },
      { ...sender, waitsSinceMs, preparedMs },
    )
    if (settlement === 'stale') return { next: 'stale' }
    if (settlement === 'settled_before') {
      const earlier = await lookUp()
      if (earlier.outcome !== 'none_charged') return earlier.step
      lookedUp = earlier.settlementIds
    } else if (settlement !== 'outdated') return { next: 'moved', job: { ...job, state: 'settling', settlement } }
  }
}

/** Begins to prepare a charge. */
export function prepare(
  { settler }: KeySettlementDependencies,
  { authorization }: Pick<LeasedJob, 'authorization'>,
  chargeAmount: AtomicAmount,
): PreparingSettlement {
  const preparing = settler
    .prepare(authorization, chargeAmount)
    .then((prepared) => ({ prepared, preparedMs: performance.now() }))
  // An error is for the one who takes it, and it may be that nobody does.
  preparing.catch(() => undefined)
  return preparing
}

/** Delay before the next attempt while the chain cannot be reached or has not mined the transaction. */
const CHAIN_RETRY_MS = 1000

/**
 * Defers a charge that cannot be prepared, while no transaction can move money. If the node answers other reads of the
 * chain, the payment itself is the cause.
 */
export async function whileUnprepared(
  { settler }: KeySettlementDependencies,
  { authorization }: LeasedJob,
): Promise<StepOutcome> {
  const { outcome } = await settler.readEvidence(authorization, [])
  return outcome === 'read'
    ? later('the payment cannot be simulated', 'owe')
    : later('the payment network cannot be reached', 'withhold')
}

/**
 * Defers a charge that no key of this process may send, which is the operator's to correct and never the payer's debt.
 */
export function whileNotListed({ logger }: KeySettlementDependencies, { id, authorization }: LeasedJob): StepOutcome {
  logger.error('SETTLEMENT_CONTRACT: the contract lists none of the settlement keys', {
    jobId: id,
    facilitator: authorization.facilitator,
  })
  return later('the settlement contract lists none of the settlement keys', 'withhold')
}

export function later(reason: string, ending: Ending): StepOutcome {
  return { next: 'later', delayMs: CHAIN_RETRY_MS, reason, ending }
}
