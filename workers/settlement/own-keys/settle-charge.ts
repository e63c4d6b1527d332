import type { ClaimedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { SettlementSteps } from '../../job/settlement-steps.ts'
import { finished, moved, type StepOutcome } from '../../job/step-outcome.ts'
import {
  completeSettlement,
  type FinishSettlementDependencies,
  failSettlement,
  requireSealed,
} from '../finish-settlement.ts'
import { awaitConfirmation } from './await-confirmation.ts'

export interface SettlementDependencies extends FinishSettlementDependencies {
  readonly settlementStore: FinishSettlementDependencies['settlementStore'] &
    Pick<JobSettlementStore, 'recordSettlement' | 'readSettlement' | 'renewSettlement' | 'markForReview'>
  readonly settler: Settler
  readonly logger: Logger
}

/** Delay before the next attempt while the chain cannot be reached or has not mined the transaction. */
const CHAIN_RETRY_MS = 1000

/** Settles with settlement keys of our own. */
export function createOwnKeySettlement(dependencies: SettlementDependencies): SettlementSteps {
  return {
    recordSettlement: (job) => recordSettlement(dependencies, job),
    settleCharge: (job) => settleCharge(dependencies, job),
  }
}

/** Moves generated → settling: signs the transaction that settles the charge, and stores it. Nothing is sent yet. */
async function recordSettlement(
  { settlementStore, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  }
  if (prepared.outcome === 'refused') return failSettlement({ settlementStore }, job, prepared.code)
  const { terms, minimumAccountNonce } = prepared
  const settlement = await settlementStore.recordSettlement(job, {
    chargeAmount,
    minimumAccountNonce,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, terms, accountNonce),
  })
  return settlement === 'stale' ? { next: 'stale' } : { next: 'moved', job: { ...job, state: 'settling', settlement } }
}

/** Moves settling → completed: sends the stored transaction until the chain proves the transfer. */
async function settleCharge(dependencies: SettlementDependencies, job: ClaimedJob): Promise<StepOutcome> {
  const { settlementStore } = dependencies
  const { settlement, verdict } = await awaitConfirmation(dependencies, job, requireSealed(job))
  switch (verdict.verdict) {
    case 'settled':
      return completeSettlement(dependencies, job, settlement.settlementId, {
        ...verdict.confirmation,
        hash: verdict.transaction.hash,
      })
    case 'uncollectable':
      return failSettlement(dependencies, job, verdict.reason)
    case 'nonce_used_elsewhere':
      return signAgain(dependencies, job, settlement, verdict.accountNonceCount)
    case 'transfer_missing':
    case 'unexplained':
      return finished(await settlementStore.markForReview(job, verdict.reason))
    case 'open':
      return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'settlement pending' }
  }
}

/** Signs the same charge for another account nonce, once none of the signed transactions can still be mined. */
async function signAgain(
  { settlementStore, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
  { settlementId, transactions }: StoredSettlement,
  accountNonceCount: bigint,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const [newest] = transactions
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction`)
  const { facilitator } = job.authorization
  logger.warn('an account nonce was used outside this ledger; signing again', { jobId: job.id, facilitator })
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  // An earlier transaction may have used the nonce after all, so this does not prove that nothing was paid.
  if (prepared.outcome === 'refused' && prepared.code === 'payment_nonce_used')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment nonce is used after all' }
  if (prepared.outcome === 'refused') return failSettlement({ settlementStore }, job, prepared.code)
  const written = await settlementStore.renewSettlement(job, {
    settlementId,
    usedAccountNonce: newest.accountNonce,
    minimumAccountNonce: accountNonceCount,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, prepared.terms, accountNonce),
  })
  return moved(written, { ...job, settlement: null })
}
