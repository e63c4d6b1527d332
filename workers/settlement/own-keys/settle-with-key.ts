import pLimit from 'p-limit'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { finished, type SettlementSteps, type StepContext, type StepOutcome } from '../../job/step-outcome.ts'
import type { KeySettlementDependencies } from '../dependencies.ts'
import { completeSettlement, failSettlement, requireSealed } from '../finish-settlement.ts'
import { awaitConfirmation, type ConfirmationDependencies } from './await-confirmation.ts'
import { later, prepare, recordSettlement } from './record-settlement.ts'
import { signAgain } from './sign-again.ts'

/** Settlements of this process that are read from the chain concurrently; a node may limit its calls per second. */
const CONCURRENT_READS = 32

/** Settles with settlement keys of our own. */
export function createOwnKeySettlement(dependencies: KeySettlementDependencies): SettlementSteps {
  const limitReads = pLimit(CONCURRENT_READS)
  return {
    prepare: (job, chargeAmount) => prepare(dependencies, job, chargeAmount),
    recordSettlement: (job, context) => recordSettlement(dependencies, job, context),
    settleCharge: (job, context) => settleCharge({ ...dependencies, limitReads }, job, context),
  }
}

/** Moves settling → completed: sends the stored transaction until the chain proves the transfer. */
async function settleCharge(
  dependencies: ConfirmationDependencies,
  job: LeasedJob,
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
    case 'batch_reverted':
      return signAgain(dependencies, job, settlement, verdict)
    case 'transfer_missing':
    case 'unexplained':
      return finished(await settlementStore.markForReview(job, verdict.reason))
    case 'open':
      return later('settlement pending', 'review')
  }
}
