import { AppError } from '#shared/errors/app-error.ts'
import { serveMetrics } from '#shared/runtime/metrics-server.ts'
import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import { buildApp } from './app.ts'
import type { ApiConfig } from './config.ts'
import type { ApiDependencies } from './dependencies.ts'

/** Held callers may still get their result within this time after a signal; then they get a 503 that lets them attach. */
const GRACE_MS = 3000
const SHUTDOWN_DEADLINE_MS = 10_000

/** Serves until a signal ends the process. `stopping` is what the dependencies were told to listen to. */
export async function startApi(
  config: ApiConfig,
  dependencies: ApiDependencies,
  stopping: AbortController,
): Promise<void> {
  const letHeldCallersGo = () => {
    const message = 'The service restarts. Nothing was charged; retry shortly.'
    stopping.abort(new AppError('capacity_exceeded', { message }))
  }
  const app = await buildApp(dependencies)
  const { METRICS_HOST: metricsHost, METRICS_PORT: metricsPort } = config
  const metrics = metricsPort === undefined ? null : await serveMetrics(dependencies.metrics, metricsHost, metricsPort)
  stopOnSignal(async () => {
    const grace = setTimeout(letHeldCallersGo, GRACE_MS)
    await app.close()
    clearTimeout(grace)
    letHeldCallersGo()
    await metrics?.close()
    await dependencies.close()
  }, SHUTDOWN_DEADLINE_MS)
  const address = await app.listen({ host: config.HOST, port: config.PORT })
  dependencies.logger.info(`listening on ${address}`)
}
