import pLimit from 'p-limit'
import type { ClaimedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { EarlierSettlement, JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import type { BlockWatch } from '#shared/payment/block-watch.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { SettlementSteps } from '../../job/settlement-steps.ts'
import { type Ending, finished, moved, type StepContext, type StepOutcome } from '../../job/step-outcome.ts'
import {
  completeSettlement,
  type FinishSettlementDependencies,
  failSettlement,
  requireSealed,
} from '../finish-settlement.ts'
import { type EarlierSettlementDependencies, lookUpEarlier } from '../look-up-earlier.ts'
import { awaitConfirmation, type ConfirmationDependencies } from './await-confirmation.ts'
import { findEarlierCharge } from './find-earlier-charge.ts'
import type { Verdict } from './judge-settlement.ts'

export interface SettlementDependencies extends FinishSettlementDependencies {
  readonly settlementStore: FinishSettlementDependencies['settlementStore'] &
    Pick<JobSettlementStore, 'recordSettlement' | 'readSettlement' | 'renewSettlement' | 'markForReview'> &
    EarlierSettlementDependencies['settlementStore']
  readonly settler: Settler
  readonly blockWatch: BlockWatch
  readonly unaskedMs?: number
  readonly logger: Logger
}

/** Settlements of this process that are read from the chain concurrently; a node may limit its calls per second. */
const CONCURRENT_READS = 32

/** Delay before the next attempt while the chain cannot be reached or has not mined the transaction. */
const CHAIN_RETRY_MS = 1000

/** Settles with settlement keys of our own. */
export function createOwnKeySettlement(dependencies: SettlementDependencies): SettlementSteps {
  const limitReads = pLimit(CONCURRENT_READS)
  return {
    recordSettlement: (job) => recordSettlement(dependencies, job),
    settleCharge: (job, context) => settleCharge({ ...dependencies, limitReads }, job, context),
  }
}

/**
 * Moves generated → settling: signs the transaction that settles the charge, and stores it. Nothing is sent yet. A job
 * that was settled before with another authorization is first looked up on chain: a reorganization may have let that
 * settlement succeed, and then it is the one that is charged.
 */
async function recordSettlement(
  dependencies: SettlementDependencies,
  job: ClaimedJob,
  lookedUp: readonly string[] = [],
): Promise<StepOutcome> {
  const { settlementStore, settler, logger } = dependencies
  const findCharge = (earlier: EarlierSettlement) => findEarlierCharge(settler, earlier)
  const { chargeAmount } = requireSealed(job)
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
    return whileUnprepared(settler, job)
  }
  if (prepared.outcome === 'refused') {
    const earlier = await lookUpEarlier(dependencies, job, findCharge)
    return earlier.outcome === 'none_charged' ? failSettlement(dependencies, job, prepared.code) : earlier.step
  }
  const { terms, minimumAccountNonce } = prepared
  const settlement = await settlementStore.recordSettlement(job, {
    chargeAmount,
    minimumAccountNonce,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, terms, accountNonce),
    lookedUp,
  })
  if (settlement === 'settled_before') {
    const earlier = await lookUpEarlier(dependencies, job, findCharge)
    if (earlier.outcome !== 'none_charged') return earlier.step
    return recordSettlement(dependencies, job, earlier.settlementIds)
  }
  return settlement === 'stale' ? { next: 'stale' } : { next: 'moved', job: { ...job, state: 'settling', settlement } }
}

/**
 * Defers a charge that cannot be prepared, while no transaction can move money. If the node answers other reads of the
 * chain, the payment itself is the cause.
 */
async function whileUnprepared(
  settler: Pick<Settler, 'readEvidence'>,
  { authorization }: ClaimedJob,
): Promise<StepOutcome> {
  const { outcome } = await settler.readEvidence(authorization)
  return outcome === 'read'
    ? later('the payment cannot be simulated', 'owe')
    : later('the payment network cannot be reached', 'withhold')
}

function later(reason: string, ending: Ending): StepOutcome {
  return { next: 'later', delayMs: CHAIN_RETRY_MS, reason, ending }
}

/** Moves settling → completed: sends the stored transaction until the chain proves the transfer. */
async function settleCharge(
  dependencies: SettlementDependencies & ConfirmationDependencies,
  job: ClaimedJob,
  context: StepContext,
): Promise<StepOutcome> {
  const { settlementStore } = dependencies
  const judged = await awaitConfirmation(dependencies, job, requireSealed(job), context)
  if (!judged) return { next: 'stale' }
  const { settlement, verdict, gas } = judged
  switch (verdict.verdict) {
    case 'settled':
      return completeSettlement(dependencies, job, settlement.settlementId, {
        ...verdict.confirmation,
        hash: verdict.transaction.hash,
      })
    case 'uncollectable':
      return failSettlement(dependencies, job, verdict.reason, verdict.judgedAt, gas)
    case 'nonce_used_elsewhere':
      return signAgain(dependencies, job, settlement, verdict)
    case 'transfer_missing':
    case 'unexplained':
      return finished(await settlementStore.markForReview(job, verdict.reason))
    case 'open':
      return later('settlement pending', 'review')
  }
}

/** Signs the same charge for another account nonce, once none of the signed transactions can still be mined. */
async function signAgain(
  { settlementStore, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
  { settlementId, transactions }: StoredSettlement,
  { accountNonceCount, judgedAt }: Extract<Verdict, { verdict: 'nonce_used_elsewhere' }>,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const [newest] = transactions
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction`)
  const { facilitator } = job.authorization
  logger.warn('an account nonce was used outside this ledger; signing again', { jobId: job.id, facilitator })
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable') return whileUnprepared(settler, job)
  // An earlier transaction may have used the nonce after all, so this does not prove that nothing was paid.
  if (prepared.outcome === 'refused' && prepared.code === 'payment_nonce_used')
    return later('the payment nonce is used after all', 'review')
  if (prepared.outcome === 'refused') return failSettlement({ settlementStore }, job, prepared.code, judgedAt)
  const written = await settlementStore.renewSettlement(job, {
    settlementId,
    usedAccountNonce: newest.accountNonce,
    minimumAccountNonce: accountNonceCount,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, prepared.terms, accountNonce),
  })
  return moved(written, { ...job, settlement: null })
}
