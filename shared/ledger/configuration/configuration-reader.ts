import { type DeploymentEntry, parseDeployments } from '#shared/catalog/deployments-file.ts'
import type { JsonValue } from '#shared/digests/canonical-json.ts'
import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { Configuration, DeploymentControl, Switches } from '#shared/operators/configuration.ts'
import { removedDeployments } from '#shared/operators/controlled-deployments.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import type { Pool, Sql } from '../pool.ts'
import { readRevision } from './revision.ts'

export type ConfigurationReader = ReturnType<typeof createConfigurationReader>

/** Creates the reader that every process polls. */
export function createConfigurationReader(pool: Pool) {
  return bindTo(pool, { readRevision, readSwitches, readConfiguration, readRemovedDeployments })
}

interface Row {
  readonly revision: string
  readonly catalog_number: string | null
  readonly catalog: JsonValue | null
  readonly deployments_number: string | null
  readonly deployments: JsonValue | null
  readonly controls: readonly { deployment: string; is_drained: boolean; weight: number | null }[]
}

/** Reads what operators have paused and blocked. */
async function readSwitches(sql: Sql): Promise<Switches> {
  const { rows } = await sql.query<{
    readonly paused: readonly string[]
    readonly blocked: readonly { payer: string; until: string | null }[]
  }>({
    name: 'read_switches',
    text: `SELECT
         (SELECT coalesce(jsonb_agg(subject), '[]') FROM controls WHERE kind = 'queue' AND is_stopped) AS paused,
         (SELECT coalesce(jsonb_agg(jsonb_build_object('payer', subject, 'until', stopped_until)), '[]')
            FROM controls WHERE kind = 'payer' AND is_stopped) AS blocked`,
    values: [],
  })
  const { paused = [], blocked = [] } = rows[0] ?? {}
  return {
    pausedQueues: new Set(paused.filter((name): name is QueueName => QUEUE_NAMES.some((known) => known === name))),
    blockedPayers: new Map(blocked.map(({ payer, until }) => [payer, until === null ? null : new Date(until)])),
  }
}

/**
 * Reads what operators have published and its controls, as of one revision. Throws for a file that this version cannot
 * read.
 */
export async function readConfiguration(sql: Sql): Promise<Configuration | null> {
  const { rows } = await sql.query<Row>({
    name: 'read_configuration',
    text: `SELECT r.revision,
         c.number AS catalog_number, c.content AS catalog,
         d.number AS deployments_number, d.content AS deployments,
         (SELECT coalesce(jsonb_agg(jsonb_build_object(
              'deployment', subject, 'is_drained', is_stopped, 'weight', weight)), '[]')
            FROM controls WHERE kind = 'deployment') AS controls
       FROM configuration_revision r
       LEFT JOIN LATERAL (SELECT number, content FROM publications WHERE kind = 'catalog'
         ORDER BY number DESC LIMIT 1) c ON true
       LEFT JOIN LATERAL (SELECT number, content FROM publications WHERE kind = 'deployments'
         ORDER BY number DESC LIMIT 1) d ON true`,
    values: [],
  })
  const row = rows[0]
  if (row?.deployments == null) return null
  return {
    revision: BigInt(row.revision),
    catalog: { number: BigInt(row.catalog_number ?? 0), overrides: row.catalog ?? { models: {} } },
    deployments: { number: BigInt(row.deployments_number ?? 0), file: parseDeployments(row.deployments) },
    controls: new Map(
      row.controls.map(({ deployment, is_drained: isDrained, weight }): [string, DeploymentControl] => [
        deployment,
        { isDrained, weight },
      ]),
    ),
  }
}

/** Bounds what one call reads: nobody publishes that often. */
const MAXIMUM_PUBLICATIONS = 100

/**
 * Returns the deployments of a model that publications removed after `since`, as they were published last, without those
 * that are drained.
 */
async function readRemovedDeployments(sql: Sql, publicModel: string, since: Date): Promise<readonly DeploymentEntry[]> {
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
