import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'
import { startApi } from './start-api.ts'

await startProcess('API', async () => {
  const config = readConfig()
  const stopping = new AbortController()
  await startApi(config, await createDependencies(config, stopping.signal), stopping)
})
