import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'

await startProcess('worker', async () => {
  const config = readConfig()
  // Everything else is loaded after the settings are validated, so an invalid one is reported immediately.
  const [{ createDependencies }, { startWorker }] = await Promise.all([
    import('./dependencies.ts'),
    import('./start-worker.ts'),
  ])
  await startWorker(config, await createDependencies(config))
})
