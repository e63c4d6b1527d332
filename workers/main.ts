import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'

await startProcess('worker', async () => {
  const config = readConfig()
  // Everything else is loaded only once the settings are right: a wrong one is reported at once.
  const [{ createDependencies }, { startWorker }] = await Promise.all([
    import('./dependencies.ts'),
    import('./start-worker.ts'),
  ])
  await startWorker(config, await createDependencies(config))
})
