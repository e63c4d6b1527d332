import { stopOnSignal } from '#shared/runtime/shutdown.ts'
import { buildApp } from './app.ts'
import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'

/** Held callers get their answer or a retryable 503 within this time after a signal. */
const SHUTDOWN_DEADLINE_MS = 10_000

const config = readConfig()
const dependencies = await createDependencies(config)
const app = await buildApp(dependencies)
stopOnSignal(async () => {
  await app.close()
  await dependencies.close()
}, SHUTDOWN_DEADLINE_MS)
const address = await app.listen({ host: config.HOST, port: config.PORT })
dependencies.logger.info(`listening on ${address}`)
