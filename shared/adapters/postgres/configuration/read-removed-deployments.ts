import { type DeploymentEntry, parseDeployments } from '#shared/catalog/deployments-file.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { removedDeployments } from '#shared/operators/controlled-deployments.ts'
import type { Sql } from '../pool.ts'
import { readConfiguration } from './read-configuration.ts'

/** Bounds what one call reads: nobody publishes that often. */
const MAXIMUM_PUBLICATIONS = 100

/** Returns the deployments of a model that publications removed after `since`, without those that are drained. */
export async function readRemovedDeployments(
  sql: Sql,
  publicModel: string,
  since: Date,
): Promise<readonly DeploymentEntry[]> {
  const configuration = await readConfiguration(sql)
  if (configuration === null) return []
  const { rows } = await sql.query<{ content: JsonValue }>({
    name: 'read_earlier_deployments',
    text: `SELECT content FROM publications
           WHERE kind = 'deployments' AND number < $2
             AND number >= coalesce((SELECT max(number) FROM publications
               WHERE kind = 'deployments' AND published_at <= $1), 0)
           ORDER BY number DESC LIMIT $3`,
    values: [since, configuration.deployments.number.toString(), MAXIMUM_PUBLICATIONS],
  })
  return removedDeployments(
    configuration,
    rows.map(({ content }) => parseDeployments(content)),
    publicModel,
  )
}
