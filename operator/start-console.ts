import { serveMetrics } from '#shared/runtime/metrics-server.ts'
import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import { buildConsole } from './app.ts'
import type { OperatorConfig } from './config.ts'
import type { OpenedConsole } from './dependencies.ts'

/** Pages are short: whatever still runs after this time waits for a database that does not answer. */
const CLOSE_MS = 5000

/** Serves until a signal ends the process, which finishes the requests in progress. */
export async function startConsole(config: OperatorConfig, dependencies: OpenedConsole): Promise<void> {
  const { logger } = dependencies
  const app = await buildConsole(dependencies)
  const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
  const metrics = metricsPort === undefined ? null : await serveMetrics(dependencies.metrics, metricsHost, metricsPort)
  const reporting = dependencies.startReporting()
  stopOnSignal(async () => {
    await app.close()
    await metrics?.close()
    await reporting.stop()
    await dependencies.close()
  }, CLOSE_MS)
  const address = await app.listen({ host: config.OPERATOR_HOST, port: config.OPERATOR_PORT })
  logger.info(`listening on ${address}`)
}
