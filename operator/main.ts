import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'

await startProcess('console', async () => {
  const config = readConfig()
  // Everything else is loaded after the settings are validated, so an invalid one is reported immediately.
  const [{ createDependencies }, { startConsole }] = await Promise.all([
    import('./dependencies.ts'),
    import('./start-console.ts'),
  ])
  await startConsole(config, await createDependencies(config))
})
