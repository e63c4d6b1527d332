import { readConfig } from './config.ts'
import { createDependencies } from './dependencies.ts'
import { startApi } from './start-api.ts'

const config = readConfig()
const stopping = new AbortController()
await startApi(config, await createDependencies(config, stopping.signal), stopping)
