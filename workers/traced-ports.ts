import type { ExecutionStore } from '#shared/jobs/job-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { Collector } from './settlement/collector.ts'

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
      tracer.stage(
        'broadcast',
        describing(tracer, () => settler.broadcast(transaction)),
        {
          transaction: transaction.hash,
        },
      ),
    confirm: (hash, ...terms) =>
      tracer.stage(
        'confirm',
        describing(tracer, () => settler.confirm(hash, ...terms)),
        { transaction: hash },
      ),
  }
}

/** A remote facilitator is asked for what we would send ourselves. */
export function tracedFacilitator(tracer: Tracer, facilitator: RemoteFacilitator): RemoteFacilitator {
  return {
    ...facilitator,
    settle: (...charge) =>
      tracer.stage(
        'broadcast',
        describing(tracer, () => facilitator.settle(...charge)),
      ),
    confirm: (hash, ...terms) =>
      tracer.stage(
        'confirm',
        describing(tracer, () => facilitator.confirm(hash, ...terms)),
        { transaction: hash },
      ),
  }
}

export function tracedCollector(tracer: Tracer, collector: Collector): Collector {
  return {
    recordCharge: (job) => tracer.stage('sign', () => collector.recordCharge(job)),
    collectCharge: (job) => tracer.stage('settle', () => collector.collectCharge(job)),
  }
}

/** The same call, whose outcome the span tells. */
export function describing<Outcome extends { readonly outcome: string }>(
  tracer: Tracer,
  call: () => Promise<Outcome>,
): () => Promise<Outcome> {
  return async () => {
    const result = await call()
    tracer.describe({ outcome: result.outcome })
    return result
  }
}
