import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { JobSettlementStore } from '#shared/jobs/settlement-store.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { finished, type StepOutcome } from '../job/step-outcome.ts'
import { buildReceipt } from './build-receipt.ts'

export interface FinishSettlementDependencies {
  readonly settlementStore: Pick<JobSettlementStore, 'completeJob' | 'failSettlement'>
  readonly receiptSecretId: string
  readonly now: () => Date
}

/** A transaction that is proved to have settled the charge. */
export type MinedTransfer = Extract<Confirmation, { outcome: 'confirmed' }> & { readonly hash: `0x${string}` }

/** Moves settling → completed: stores the receipt and releases the result. */
export async function completeSettlement(
  { settlementStore, receiptSecretId, now }: FinishSettlementDependencies,
  job: ClaimedJob,
  settlementId: string,
  { hash, blockNumber, blockHash, blockTimestamp }: MinedTransfer,
): Promise<StepOutcome> {
  const sealed = requireSealed(job)
  const { network, payer } = job.authorization
  const written = await settlementStore.completeJob(job, {
    settlementId,
    transactionHash: hash,
    blockNumber,
    blockHash,
    receipt: buildReceipt(job, sealed, { hash, blockNumber, settledAt: blockTimestamp, issuedAt: now() }),
    receiptSecretId,
    paymentResponse: { success: true, transaction: hash, network, payer, amount: sealed.chargeAmount.toString() },
  })
  return finished(written)
}

/** Moves generated or settling → settlement_failed: the charge can never be settled, so the result is withheld. */
export async function failSettlement(
  { settlementStore }: Pick<FinishSettlementDependencies, 'settlementStore'>,
  job: ClaimedJob,
  reason: string,
): Promise<StepOutcome> {
  return finished(await settlementStore.failSettlement(job, { code: 'settlement_failed', reason }))
}

/** Returns the sealed result, which every job from `generated` on has. */
export function requireSealed({ id, state, sealed }: ClaimedJob): SealedResult {
  if (!sealed) throw new Error(`job ${id} is ${state} without a result`)
  return sealed
}
