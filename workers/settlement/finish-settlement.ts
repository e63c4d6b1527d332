import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { finished, type StepOutcome } from '../job/step-outcome.ts'
import { buildReceipt } from './build-receipt.ts'

export interface FinishSettlementDependencies {
  readonly store: Pick<ExecutionStore, 'completeJob' | 'failSettlement'>
  readonly receiptSecretId: string
  readonly now: () => Date
}

/** A transaction that is proved to have collected the charge. */
export type MinedTransfer = Extract<Confirmation, { outcome: 'confirmed' }> & { readonly hash: `0x${string}` }

/** settling → completed: writes the receipt and releases the result. */
export async function completeSettlement(
  { store, receiptSecretId, now }: FinishSettlementDependencies,
  job: ClaimedJob,
  settlementId: string,
  { hash, blockNumber, blockHash, blockTimestamp }: MinedTransfer,
): Promise<StepOutcome> {
  const sealed = requireSealed(job)
  const { network, payer } = job.authorization
  const written = await store.completeJob(job, {
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

/** generated or settling → settlement_failed: the charge can never be collected, so the result is withheld. */
export async function failSettlement(
  { store }: Pick<FinishSettlementDependencies, 'store'>,
  job: ClaimedJob,
  reason: string,
): Promise<StepOutcome> {
  return finished(await store.failSettlement(job, { code: 'settlement_failed', reason }))
}

/** What there is to charge for. A job that is `generated` or further has it. */
export function requireSealed({ id, state, sealed }: ClaimedJob): SealedResult {
  if (!sealed) throw new Error(`job ${id} is ${state} without a result`)
  return sealed
}
