import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'

await startProcess('API', async () => {
  const config = readConfig()
  // Everything else is loaded after the settings are validated, so an invalid one is reported immediately.
  const [{ createDependencies }, { startApi }] = await Promise.all([
    import('./dependencies.ts'),
    import('./start-api.ts'),
  ])
  const stopping = new AbortController()
  await startApi(config, await createDependencies(config, stopping.signal), stopping)
})
