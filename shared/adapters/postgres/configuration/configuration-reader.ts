import type { ConfigurationReader } from '#shared/operators/configuration.ts'
import type { Pool } from '../pool.ts'
import { readConfiguration } from './read-configuration.ts'
import { readRemovedDeployments } from './read-removed-deployments.ts'
import { readRevision } from './read-revision.ts'

/** Creates the reader that every process polls. */
export function createConfigurationReader(pool: Pool): ConfigurationReader {
  return {
    readRevision: () => readRevision(pool),
    readConfiguration: () => readConfiguration(pool),
    readRemovedDeployments: (publicModel, since) => readRemovedDeployments(pool, publicModel, since),
  }
}
