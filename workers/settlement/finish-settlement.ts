import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import type { JobSettlementStore, JudgedBlock } from '#shared/jobs/settlement-store.ts'
import type { Confirmation, GasSpent } from '#shared/payment/facilitator.ts'
import { finished, type StepOutcome } from '../job/step-outcome.ts'
import { buildReceipt } from './build-receipt.ts'

export interface FinishSettlementDependencies {
  readonly settlementStore: Pick<JobSettlementStore, 'completeJob' | 'failSettlement'>
  readonly receiptSecretId: string
  readonly now: () => Date
}

/** A transaction that is proved to have settled the charge. */
export type MinedTransfer = Omit<Extract<Confirmation, { outcome: 'confirmed' }>, 'gas'> & {
  readonly hash: `0x${string}`
  readonly gas?: GasSpent
}

/** Moves settling → completed: stores the receipt and releases the result. */
export async function completeSettlement(
  { settlementStore, receiptSecretId, now }: FinishSettlementDependencies,
  job: ClaimedJob,
  settlementId: string,
  { hash, blockNumber, blockHash, blockTimestamp, gas }: MinedTransfer,
): Promise<StepOutcome> {
  const sealed = requireSealed(job)
  const { network, payer } = job.authorization
  const written = await settlementStore.completeJob(job, {
    settlementId,
    transactionHash: hash,
    blockNumber,
    blockHash,
    ...(gas && { gas }),
    receipt: buildReceipt(job, sealed, { hash, blockNumber, settledAt: blockTimestamp, issuedAt: now() }),
    receiptSecretId,
    paymentResponse: { success: true, transaction: hash, network, payer, amount: sealed.chargeAmount.toString() },
  })
  return finished(written)
}

/**
 * Moves generated or settling → settlement_failed: the charge cannot be settled, so the result is withheld. `judgedAt`
 * is the block that proves it, `gas` what reverted transactions cost.
 */
export async function failSettlement(
  { settlementStore }: Pick<FinishSettlementDependencies, 'settlementStore'>,
  job: ClaimedJob,
  reason: string,
  judgedAt: JudgedBlock | null = null,
  gas: GasSpent | null = null,
): Promise<StepOutcome> {
  return finished(await settlementStore.failSettlement(job, { code: 'settlement_failed', reason, judgedAt, gas }))
}

/** Returns the sealed result, which every job from `generated` on has. */
export function requireSealed({ id, state, sealed }: ClaimedJob): SealedResult {
  if (!sealed) throw new Error(`job ${id} is ${state} without a result`)
  return sealed
}
