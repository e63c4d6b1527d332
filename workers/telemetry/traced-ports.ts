import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import { describedStage, type Tracer } from '#shared/runtime/tracing.ts'
import type { SettlementSteps } from '../job/step-outcome.ts'

/** Wraps the settlement store to trace its stages. */
export function tracedSettlementStore(tracer: Tracer, settlementStore: SettlementStore): SettlementStore {
  return {
    ...settlementStore,
    completeJob: (job, completion) =>
      tracer.stage('commit', () => settlementStore.completeJob(job, completion), {
        transaction: completion.transactionHash,
      }),
  }
}

/** Wraps the settler to trace its stages. */
export function tracedSettler(tracer: Tracer, settler: Settler): Settler {
  return {
    ...settler,
    broadcast: (transaction) =>
      describedStage(tracer, 'broadcast', () => settler.broadcast(transaction), { transaction: transaction.hash }),
    confirm: (hash, ...terms) =>
      describedStage(tracer, 'confirm', () => settler.confirm(hash, ...terms), { transaction: hash }),
  }
}

/** Wraps a remote facilitator to trace its stages: requesting a settlement counts as the broadcast. */
export function tracedFacilitator(tracer: Tracer, facilitator: RemoteFacilitator): RemoteFacilitator {
  return {
    ...facilitator,
    settle: (...charge) => describedStage(tracer, 'broadcast', () => facilitator.settle(...charge)),
    confirm: (hash, ...terms) =>
      describedStage(tracer, 'confirm', () => facilitator.confirm(hash, ...terms), { transaction: hash }),
  }
}

/** Wraps the settlement steps to trace their stages. */
export function tracedSettlementSteps(tracer: Tracer, steps: SettlementSteps): SettlementSteps {
  return {
    ...steps,
    recordSettlement: (job, context) => tracer.stage('sign', () => steps.recordSettlement(job, context)),
    settleCharge: (job, context) => tracer.stage('settle', () => steps.settleCharge(job, context)),
  }
}
