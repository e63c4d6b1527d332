import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '#shared/errors/app-error.ts'
import { serveMetrics } from '#shared/runtime/metrics-server.ts'
import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import { buildApp } from './app.ts'
import type { ApiConfig } from './config.ts'
import type { ApiDependencies } from './dependencies.ts'

/** Time to respond to released callers and to close connections. */
const CLOSE_MS = 5000

/**
 * Serves until a signal ends the process. It then stops in three stages: for DRAIN_NOTICE_SECONDS it only reports that
 * it is not ready, then it accepts no connections and finishes the requests in progress, and after DRAIN_SECONDS it
 * releases the callers that still wait, by aborting `stopping`.
 */
export async function startApi(
  config: ApiConfig,
  dependencies: ApiDependencies,
  stopping: AbortController,
): Promise<void> {
  const { logger } = dependencies
  const noticeMs = config.DRAIN_NOTICE_SECONDS * 1000
  const drainMs = config.DRAIN_SECONDS * 1000
  const draining = new AbortController()
  const releaseWaitingCallers = () => {
    const message = 'The service is restarting. Nothing was charged; retry shortly.'
    stopping.abort(new AppError('capacity_exceeded', { message }))
  }
  const app = await buildApp({ ...dependencies, draining: draining.signal })
  const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
  const metrics = metricsPort === undefined ? null : await serveMetrics(dependencies.metrics, metricsHost, metricsPort)
  const reporting = dependencies.startReporting()
  stopOnSignal(
    async () => {
      draining.abort()
      logger.info('draining')
      await delay(noticeMs)
      const grace = setTimeout(releaseWaitingCallers, drainMs)
      await app.close()
      clearTimeout(grace)
      releaseWaitingCallers()
      await metrics?.close()
      await reporting.stop()
      await dependencies.close()
    },
    noticeMs + drainMs + CLOSE_MS,
  )
  const address = await app.listen({ host: config.HOST, port: config.PORT })
  logger.info(`listening on ${address}`)
}
