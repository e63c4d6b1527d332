import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'
import { startWorker } from './start-worker.ts'

const config = readConfig()
await startWorker(config, await createDependencies(config))
