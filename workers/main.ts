import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'
import { createMetrics, serveMetrics } from './metrics.ts'
import { handBackJobs, runJob } from './run-job.ts'
import { enqueueAccepted, reconcileSettlements, resumeStalled } from './sweepers/enqueue-due-jobs.ts'
import { reapMedia } from './sweepers/reap-media.ts'
import { reapUploads } from './sweepers/reap-uploads.ts'
import { startSweepers } from './sweepers/start-sweepers.ts'

/** To hand back what did not finish within DRAIN_SECONDS, and to end connections. */
const HAND_BACK_MS = 5000

const config = readConfig()
const dependencies = await createDependencies(config)
const { logger } = dependencies
const drainMs = config.DRAIN_SECONDS * 1000
const consumer = dependencies.consume((jobId) => runJob(dependencies, jobId))
const sweepers = startSweepers(
  [
    enqueueAccepted(dependencies),
    resumeStalled(dependencies),
    reconcileSettlements(dependencies),
    reapUploads(dependencies),
    reapMedia(dependencies),
  ],
  config.SWEEP_SECONDS * 1000,
  logger,
)
const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
const metrics =
  metricsPort === undefined ? null : await serveMetrics(createMetrics(dependencies), metricsHost, metricsPort)
stopOnSignal(async () => {
  await metrics?.close()
  await sweepers.stop()
  await consumer.close(drainMs)
  await handBackJobs(dependencies)
  await dependencies.close()
}, drainMs + HAND_BACK_MS)
logger.info('taking jobs')
