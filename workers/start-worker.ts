import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import type { WorkerConfig } from './config.ts'
import type { WorkerDependencies } from './dependencies.ts'
import { createMetrics, serveMetrics } from './metrics.ts'
import { runJob } from './run-job.ts'
import { addSettlementMetrics } from './settlement-metrics.ts'
import { enqueueAccepted, reconcileSettlements, resumeStalled } from './sweepers/enqueue-due-jobs.ts'
import { expireResults, forgetExpiredChallenges } from './sweepers/forget-what-expired.ts'
import { keepNoncesMoving } from './sweepers/keep-nonces-moving.ts'
import { reapMedia, reapStrayMedia } from './sweepers/reap-media.ts'
import { reapUploads } from './sweepers/reap-uploads.ts'
import { startSweepers } from './sweepers/start-sweepers.ts'
import { watchFinality } from './sweepers/watch-finality.ts'
import { watchGas } from './sweepers/watch-gas.ts'
import { watchRemoteFinality } from './sweepers/watch-remote-finality.ts'

/** Running jobs may finish within this time after a signal; a longer one is taken over when its lease runs out. */
const DRAIN_DEADLINE_MS = 30_000
const SHUTDOWN_DEADLINE_MS = DRAIN_DEADLINE_MS + 5000

/** Takes jobs and sweeps until a signal ends the process. */
export async function startWorker(config: WorkerConfig, dependencies: WorkerDependencies): Promise<void> {
  const { logger, remote } = dependencies
  const consumer = dependencies.consume((jobId) => runJob(dependencies, jobId))
  const registry = createMetrics(dependencies)
  const { onReplacement } = addSettlementMetrics(registry, dependencies)
  const sweepers = startSweepers(
    [
      enqueueAccepted(dependencies),
      resumeStalled(dependencies),
      reconcileSettlements(dependencies),
      keepNoncesMoving({ ...dependencies, onReplacement }),
      watchFinality(dependencies),
      ...(remote ? [watchRemoteFinality({ ...dependencies, ...remote })] : []),
      watchGas(dependencies),
      reapUploads(dependencies),
      reapMedia(dependencies),
      reapStrayMedia(dependencies),
      expireResults(dependencies, config.RESULT_RETENTION_HOURS * 3600 * 1000),
      forgetExpiredChallenges(dependencies),
    ],
    config.SWEEP_SECONDS * 1000,
    logger,
  )
  const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
  const metrics = metricsPort === undefined ? null : await serveMetrics(registry, metricsHost, metricsPort)
  stopOnSignal(async () => {
    await metrics?.close()
    await sweepers.stop()
    await consumer.close(DRAIN_DEADLINE_MS)
    await dependencies.close()
  }, SHUTDOWN_DEADLINE_MS)
  logger.info('taking jobs')
}
