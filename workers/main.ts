import { startProcess } from '#shared/runtime/start-process.ts'
import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'
import { startWorker } from './start-worker.ts'

await startProcess('worker', async () => {
  const config = readConfig()
  await startWorker(config, await createDependencies(config))
})
