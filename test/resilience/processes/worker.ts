import { flushCompileCache } from 'node:module'
import { env } from 'node:process'
import { readConfig } from '../../../workers/config.ts'
import { createDependencies } from '../../../workers/dependencies.ts'
import type { Execution } from '../../../workers/executions/execution.ts'
import { createJobLeases } from '../../../workers/job/job-leases.ts'
import { gatherBatches } from '../../../workers/settlement/own-keys/batches.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/own-keys/settle-with-key.ts'
import { startWorker } from '../../../workers/start-worker.ts'
import { createReachPoint, type ReachPoint } from './reach-point.ts'
import { addCommitPoints, addExchangePoints, callWithPoints, portWithPoints } from './with-points.ts'

/** Runs the worker with points before and after every port call, at which it can be made to fail. */
const config = readConfig()
const reach = createReachPoint(env['FAULT_POINTS_DIRECTORY'] ?? '')
addCommitPoints(reach)
addExchangePoints(reach, 'worker')
const dependencies = await createDependencies(config)
/** The ports whose members are all asynchronous. */
const PORTS: ReadonlySet<string> = new Set(['queue', 'uploads', 'media', 'verifier', 'settler'])
const ports = Object.entries(dependencies)
  .filter(([name]) => PORTS.has(name))
  .map(([name, port]: [string, object]) => [name, portWithPoints(reach, `worker.${name}`, port)])
const parts = {
  ...dependencies,
  ...(Object.fromEntries(ports) as Partial<typeof dependencies>),
  executionStore: portWithPoints(reach, 'worker', dependencies.executionStore),
  settlementStore: portWithPoints(reach, 'worker', dependencies.settlementStore),
  retentionStore: portWithPoints(reach, 'worker', dependencies.retentionStore),
}
// Composed of ports, so composed again, of those with points.
const settler: typeof dependencies.settler = {
  ...parts.settler,
  // Not asynchronous.
  batchGas: (terms) => dependencies.settler.batchGas(terms),
}
const batches = gatherBatches({ ...parts, settler, maximumBatchGas: config.SETTLEMENT_BATCH_GAS })
const settling = { ...parts, settler, batches }
await startWorker(config, {
  ...settling,
  leases: createJobLeases(parts),
  settlementSteps: createOwnKeySettlement({ ...settling, receiptSecretId: config.RECEIPT_SECRET_ID }),
  executionOf: (operationId) => executionWithPoints(reach, dependencies.executionOf(operationId)),
})
// A process that is killed cannot flush its compile cache later.
flushCompileCache()

function executionWithPoints(reach: ReachPoint, execution: Execution): Execution {
  return {
    ...execution,
    prepare: async (...input) => {
      const prepared = await execution.prepare(...input)
      const call = (...input: Parameters<typeof prepared.call>) => prepared.call(...input)
      return { ...prepared, call: callWithPoints(reach, 'worker.provider', call) }
    },
  }
}
