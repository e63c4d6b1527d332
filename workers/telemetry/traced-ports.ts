import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { SpanAttributes, Stage, Tracer } from '#shared/runtime/tracing.ts'
import type { SettlementSteps } from '../settlement/settlement-steps.ts'

/** The same ports, with the stages of a job around those calls that make one. */

export function tracedStore(tracer: Tracer, store: ExecutionStore): ExecutionStore {
  return {
    ...store,
    completeJob: (job, completion) =>
      tracer.stage('commit', () => store.completeJob(job, completion), { transaction: completion.transactionHash }),
  }
}

export function tracedSettler(tracer: Tracer, settler: Settler): Settler {
  return {
    ...settler,
    broadcast: (transaction) =>
      describedStage(tracer, 'broadcast', () => settler.broadcast(transaction), { transaction: transaction.hash }),
    confirm: (hash, ...terms) =>
      describedStage(tracer, 'confirm', () => settler.confirm(hash, ...terms), { transaction: hash }),
  }
}

/** A remote facilitator is asked for what we would send ourselves. */
export function tracedFacilitator(tracer: Tracer, facilitator: RemoteFacilitator): RemoteFacilitator {
  return {
    ...facilitator,
    settle: (...charge) => describedStage(tracer, 'broadcast', () => facilitator.settle(...charge)),
    confirm: (hash, ...terms) =>
      describedStage(tracer, 'confirm', () => facilitator.confirm(hash, ...terms), { transaction: hash }),
  }
}

export function tracedSettlementSteps(tracer: Tracer, collector: SettlementSteps): SettlementSteps {
  return {
    recordSettlement: (job) => tracer.stage('sign', () => collector.recordSettlement(job)),
    settleCharge: (job) => tracer.stage('settle', () => collector.settleCharge(job)),
  }
}

/** A stage of a job whose outcome its span tells. */
export function describedStage<Outcome extends { readonly outcome: string }>(
  tracer: Tracer,
  stage: Stage,
  call: () => Promise<Outcome>,
  attributes?: SpanAttributes,
): Promise<Outcome> {
  const describedCall = async () => {
    const result = await call()
    tracer.describe({ outcome: result.outcome })
    return result
  }
  return tracer.stage(stage, describedCall, attributes)
}
