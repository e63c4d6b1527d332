import { flushCompileCache } from 'node:module'
import { env } from 'node:process'
import { readConfig } from '../../../workers/config.ts'
import { createDependencies } from '../../../workers/dependencies.ts'
import type { Execution } from '../../../workers/executions/execution.ts'
import { createOwnKeySettlement } from '../../../workers/settlement/settlement-steps.ts'
import { startWorker } from '../../../workers/start-worker.ts'
import { createReachPoint, type ReachPoint } from './reach-point.ts'
import { addCommitPoints, addExchangePoints, callWithPoints, portWithPoints } from './with-points.ts'

/** The worker as it is, with a point at which it can be made to fail around every call to a port. */
const config = readConfig()
const reach = createReachPoint(env['FAULT_POINTS_DIRECTORY'] ?? '')
addCommitPoints(reach)
addExchangePoints(reach, 'worker')
const dependencies = await createDependencies(config)
/** Ports whose members are all asynchronous. */
const PORTS: ReadonlySet<string> = new Set(['queue', 'uploads', 'media', 'verifier', 'settler', 'settlements'])
const ports = Object.entries(dependencies)
  .filter(([name]) => PORTS.has(name))
  .map(([name, port]: [string, object]) => [name, portWithPoints(reach, `worker.${name}`, port)])
const parts = {
  ...dependencies,
  ...(Object.fromEntries(ports) as Partial<typeof dependencies>),
  store: portWithPoints(reach, 'worker', dependencies.store),
}
await startWorker(config, {
  ...parts,
  // Composed of ports, so it is composed again of those with points.
  settlementSteps: createOwnKeySettlement({ ...parts, receiptSecretId: config.RECEIPT_SECRET_ID }),
  executionOf: (operationId) => executionWithPoints(reach, dependencies.executionOf(operationId)),
})
// A process that is killed has no later moment to keep what it compiled.
flushCompileCache()

function executionWithPoints(reach: ReachPoint, execution: Execution): Execution {
  return {
    ...execution,
    prepare: async (input) => {
      const prepared = await execution.prepare(input)
      const call = (...input: Parameters<typeof prepared.call>) => prepared.call(...input)
      return { ...prepared, call: callWithPoints(reach, 'worker.provider', call) }
    },
  }
}
