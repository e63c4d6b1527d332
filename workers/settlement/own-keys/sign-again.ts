import type { LeasedJob, StoredSettlement } from '#shared/jobs/job.ts'
import type { RemovedSettlement } from '#shared/ledger/settlement/finality.ts'
import type { PreparedSettlement } from '#shared/payment/facilitator.ts'
import { finished, moved, type StepOutcome } from '../../job/step-outcome.ts'
import type { KeySettlementDependencies, SettlementWatchDependencies } from '../dependencies.ts'
import { failSettlement, isMediaExpiring, requireSealed, withholdExpiring } from '../finish-settlement.ts'
import { MAXIMUM_BATCH_PAYMENTS } from './choose-batch.ts'
import type { Verdict } from './judge-settlement.ts'
import { later, whileNotListed, whileUnprepared } from './record-settlement.ts'

/** Halves lead from a full batch to a payment of its own in seven steps. */
const MOST_ACCOUNT_NONCES = 8

type SignAgainVerdict = Extract<Verdict, { verdict: 'nonce_used_elsewhere' | 'batch_reverted' }>
type Ready = Extract<PreparedSettlement, { outcome: 'ready' }>

/**
 * Signs the same charge for another account nonce, once none of the signed transactions can still be mined. After a
 * batch that reverted as a whole the next one is at most half as large, so that a payment that spoils every batch is
 * soon alone.
 */
export async function signAgain(
  dependencies: KeySettlementDependencies,
  job: LeasedJob,
  settlement: StoredSettlement,
  verdict: SignAgainVerdict,
): Promise<StepOutcome> {
  const { settlementStore, settler, logger } = dependencies
  const { transactions, batch } = settlement
  const [newest] = transactions
  if (!newest) throw new Error(`job ${job.id} is settling without a transaction`)
  if (batch && countNonces(settlement) >= MOST_ACCOUNT_NONCES) {
    const reason = `signed for ${MOST_ACCOUNT_NONCES} account nonces, none of which settled it`
    logger.error('a settlement was signed too often', { jobId: job.id, reason })
    return finished(await settlementStore.markForReview(job, reason))
  }
  if (isMediaExpiring(dependencies, job)) return withholdExpiring(dependencies, job, verdict.judgedAt)
  const cause =
    verdict.verdict === 'batch_reverted'
      ? 'a batch reverted as a whole'
      : 'an account nonce was used outside this ledger'
  logger.warn(`${cause}; signing again`, { jobId: job.id, facilitator: newest.sender })
  const prepared = await settler.prepare(job.authorization, requireSealed(job).chargeAmount)
  if (prepared.outcome === 'unreachable') return whileUnprepared(dependencies, job)
  if (prepared.outcome === 'not_listed') return whileNotListed(dependencies, job)
  // An earlier transaction may have used the nonce after all, so this does not prove that nothing was paid.
  if (prepared.outcome === 'refused' && prepared.code === 'payment_nonce_used')
    return later('the payment nonce is used after all', 'review')
  if (prepared.outcome === 'refused') return failSettlement(dependencies, job, prepared.code, verdict.judgedAt)
  return batch && prepared.contract
    ? await renewInBatch(dependencies, job, { settlement, batch, verdict, prepared, contract: prepared.contract })
    : await renewAlone(dependencies, job, { settlement, verdict, prepared, usedAccountNonce: newest.accountNonce })
}

async function renewAlone(
  { settlementStore, settler }: KeySettlementDependencies,
  job: LeasedJob,
  {
    settlement: { settlementId },
    verdict,
    prepared,
    usedAccountNonce,
  }: {
    readonly settlement: StoredSettlement
    readonly verdict: SignAgainVerdict
    readonly prepared: Ready
    readonly usedAccountNonce: bigint
  },
): Promise<StepOutcome> {
  const { chargeAmount } = requireSealed(job)
  const written = await settlementStore.renewSettlement(job, {
    settlementId,
    usedAccountNonce,
    minimumAccountNonce: minimumOf(prepared, verdict),
    sign: (accountNonce) => settler.sign(job.authorization, chargeAmount, prepared.terms, accountNonce),
  })
  if (written === 'queue_full') return later('the settlement key has no account nonce left', 'review')
  return moved(written, { ...job, settlement: null })
}

async function renewInBatch(
  { batches }: KeySettlementDependencies,
  job: LeasedJob,
  {
    settlement,
    batch,
    verdict,
    prepared,
    contract,
  }: {
    readonly settlement: StoredSettlement
    readonly batch: NonNullable<StoredSettlement['batch']>
    readonly verdict: SignAgainVerdict
    readonly prepared: Ready
    readonly contract: `0x${string}`
  },
): Promise<StepOutcome> {
  const { authorization } = job
  const { chargeAmount } = requireSealed(job)
  const nowMs = performance.now()
  const renewed = await batches.renew(
    {
      job,
      charge: { authorization, chargeAmount, terms: prepared.terms },
      settlementId: settlement.settlementId,
      leavesBatch: batch.id,
    },
    {
      sender: prepared.sender,
      contract,
      affordableGas: prepared.affordableGas,
      minimumAccountNonce: minimumOf(prepared, verdict),
      waitsSinceMs: nowMs,
      preparedMs: nowMs,
    },
    verdict.verdict === 'batch_reverted' ? Math.max(1, Math.floor(batch.size / 2)) : MAXIMUM_BATCH_PAYMENTS,
  )
  return renewed === 'stale' ? { next: 'stale' } : { next: 'moved', job: { ...job, settlement: renewed } }
}

/** Returns the first account nonce of the sender that the evidence does not show as used. */
function minimumOf({ sender, minimumAccountNonce }: Ready, { accountNonceCounts }: SignAgainVerdict): bigint {
  const count = accountNonceCounts.get(sender) ?? 0n
  return count > minimumAccountNonce ? count : minimumAccountNonce
}

function countNonces({ transactions }: Pick<StoredSettlement, 'transactions'>): number {
  return new Set(transactions.map(({ sender, accountNonce }) => `${sender} ${accountNonce}`)).size
}

/**
 * Signs the charge of a released result for another account nonce, after a reorganization removed its settlement and
 * none of its transactions can be mined any more: each goes alone, since this is rare. Its payer may have spent the
 * money since, or the contract may list no key: then it is tried again at every poll, until the authorization expires.
 * Returns whether it was signed.
 */
export async function signReleasedAgain(
  { settlementStore, settler, logger }: SettlementWatchDependencies,
  settlement: RemovedSettlement,
  verdict: SignAgainVerdict,
): Promise<boolean> {
  const { jobId, authorization, chargeAmount } = settlement
  const cannotBeSent = (reason: string) => {
    logger.error('a settlement was removed from the chain and cannot be sent again', { jobId, reason })
    return false
  }
  if (countNonces(settlement) >= MOST_ACCOUNT_NONCES)
    return cannotBeSent(`signed for ${MOST_ACCOUNT_NONCES} account nonces, none of which settled it`)
  const prepared = await settler.prepare(authorization, chargeAmount)
  if (prepared.outcome !== 'ready')
    return cannotBeSent(prepared.outcome === 'refused' ? prepared.code : prepared.outcome)
  const { terms, sender, contract } = prepared
  const renewed = await settlementStore.renewReleased(settlement, {
    account: { network: authorization.network, facilitator: sender },
    contract,
    charge: { authorization, chargeAmount, terms },
    minimumAccountNonce: minimumOf(prepared, verdict),
    sign: (charges, accountNonce) =>
      contract === null
        ? settler.sign(authorization, chargeAmount, terms, accountNonce)
        : settler.signBatch(charges, sender, accountNonce),
  })
  if (!renewed) return false
  logger.warn('a settlement was removed from the chain and signed again', { jobId, facilitator: sender })
  await settler.broadcast(renewed)
  return true
}
