import { flushCompileCache } from 'node:module'
import { env } from 'node:process'
import { readConfig } from '../../../workers/config.ts'
import { createDependencies } from '../../../workers/dependencies.ts'
import type { Execution } from '../../../workers/executions/execution.ts'
import { startWorker } from '../../../workers/start-worker.ts'
import { createReachPoint, type ReachPoint } from './reach-point.ts'
import { addCommitPoints, addExchangePoints, callWithPoints, portWithPoints } from './with-points.ts'

/** The worker as it is, with a point at which it can be made to fail around every call to a port. */
const config = readConfig()
const reach = createReachPoint(env['FAULT_POINTS_DIRECTORY'] ?? '')
addCommitPoints(reach)
addExchangePoints(reach, 'worker', config.RPC_URL)
const dependencies = await createDependencies(config)
const { store, queue, uploads, media, verifier, settler, executionOf } = dependencies
await startWorker(config, {
  ...dependencies,
  store: portWithPoints(reach, 'worker', store),
  queue: portWithPoints(reach, 'worker.queue', queue),
  uploads: portWithPoints(reach, 'worker.uploads', uploads),
  media: portWithPoints(reach, 'worker.media', media),
  verifier: portWithPoints(reach, 'worker.verifier', verifier),
  settler: portWithPoints(reach, 'worker.settler', settler),
  executionOf: (operationId) => executionWithPoints(reach, executionOf(operationId)),
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
