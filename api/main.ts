import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'

await startProcess('API', async () => {
  const config = readConfig()
  // Everything else is loaded only once the settings are right: a wrong one is reported at once.
  const [{ createDependencies }, { startApi }] = await Promise.all([
    import('./dependencies.ts'),
    import('./start-api.ts'),
  ])
  const stopping = new AbortController()
  await startApi(config, await createDependencies(config, stopping.signal), stopping)
})
