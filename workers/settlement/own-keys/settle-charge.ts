import type { ClaimedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { finished, moved, type StepOutcome } from '../../job/step-outcome.ts'
import {
  completeSettlement,
  type FinishSettlementDependencies,
  failSettlement,
  requireSealed,
} from '../finish-settlement.ts'
import { awaitConfirmation } from './await-confirmation.ts'

export interface SettlementDependencies extends FinishSettlementDependencies {
  readonly store: FinishSettlementDependencies['store'] &
    Pick<ExecutionStore, 'recordSettlement' | 'readSettlement' | 'renewSettlement' | 'markForReview'>
  readonly settler: Settler
  readonly logger: Logger
}

/** Between attempts against a chain that cannot be reached or has not mined yet. */
const CHAIN_RETRY_MS = 1000

/** generated → settling: fixes and signs the transaction that collects the charge, and stores it. Nothing is sent yet. */
export async function recordSettlement(
  { store, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable') {
    logger.warn('payment network unreachable', { jobId: job.id, error: prepared.cause })
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  }
  if (prepared.outcome === 'refused') return failSettlement({ store }, job, prepared.code)
  const { terms, minimumAccountNonce } = prepared
  const settlement = await store.recordSettlement(job, {
    chargeAmount,
    minimumAccountNonce,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, terms, accountNonce),
  })
  return settlement === 'stale' ? { next: 'stale' } : { next: 'moved', job: { ...job, state: 'settling', settlement } }
}

/** settling → completed: sends what is stored, as often as it takes, and believes only the chain's proof. */
export async function settleCharge(dependencies: SettlementDependencies, job: ClaimedJob): Promise<StepOutcome> {
  const { store } = dependencies
  const { settlement, verdict } = await awaitConfirmation(dependencies, job, requireSealed(job))
  switch (verdict.verdict) {
    case 'collected':
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
      return finished(await store.markForReview(job, verdict.reason))
    case 'open':
      return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'settlement pending' }
  }
}

/** Nothing that was signed can be mined any more: the same charge is signed for the next account nonce, if it can be had still. */
async function signAgain(
  { store, settler, logger }: SettlementDependencies,
  job: ClaimedJob,
  { settlementId, transactions }: StoredSettlement,
  accountNonceCount: bigint,
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const [newest] = transactions
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction`)
  const { facilitator } = job.authorization
  logger.warn('an account nonce was used elsewhere; signing again', { jobId: job.id, facilitator })
  const prepared = await settler.prepare(job.authorization, chargeAmount)
  if (prepared.outcome === 'unreachable')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the payment network cannot be reached' }
  // What was signed before may have used it after all: that must not look as if nothing was paid.
  if (prepared.outcome === 'refused' && prepared.code === 'payment_nonce_used')
    return { next: 'later', delayMs: CHAIN_RETRY_MS, reason: 'the nonce is used after all' }
  if (prepared.outcome === 'refused') return failSettlement({ store }, job, prepared.code)
  const written = await store.renewSettlement(job, {
    settlementId,
    usedAccountNonce: newest.accountNonce,
    minimumAccountNonce: accountNonceCount,
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, prepared.terms, accountNonce),
  })
  return moved(written, { ...job, settlement: null })
}
