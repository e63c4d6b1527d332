import { flushCompileCache } from 'node:module'
import { env } from 'node:process'
import { readConfig } from '../../../api/config.ts'
import { createDependencies } from '../../../api/dependencies.ts'
import { startApi } from '../../../api/start-api.ts'
import { createReachPoint } from './reach-point.ts'
import { addCommitPoints, addExchangePoints, callWithPoints, portWithPoints } from './with-points.ts'

/** Runs the API with points before and after every port call, at which it can be made to fail. */
const config = readConfig()
const reach = createReachPoint(env['FAULT_POINTS_DIRECTORY'] ?? '')
addCommitPoints(reach)
addExchangePoints(reach, 'api')
const stopping = new AbortController()
const dependencies = await createDependencies(config, stopping.signal)
const { store, queue, uploads, media, mediaLinks, verifier, outcomes } = dependencies
await startApi(
  config,
  {
    ...dependencies,
    store: portWithPoints(reach, 'api', store),
    queue: portWithPoints(reach, 'api.queue', queue),
    uploads: portWithPoints(reach, 'api.uploads', uploads),
    media: portWithPoints(reach, 'api.media', media),
    mediaLinks: mediaLinks && portWithPoints(reach, 'api.mediaLinks', mediaLinks),
    verifier: portWithPoints(reach, 'api.verifier', verifier),
    outcomes: {
      ...outcomes,
      wait: callWithPoints(reach, 'api.outcomes.wait', (jobId: string, signal: AbortSignal) =>
        outcomes.wait(jobId, signal),
      ),
    },
  },
  stopping,
)
// A process that is killed cannot flush its compile cache later.
flushCompileCache()
