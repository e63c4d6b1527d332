import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { DeploymentControl } from '#shared/operators/configuration.ts'
import type { ControlledQueue, ControlRecord } from '#shared/operators/control-store.ts'
import type { Sql } from '../pool.ts'

interface RecordRow {
  readonly operator: string
  readonly reason: string | null
  readonly changed_at: Date
}

type DeploymentRow = RecordRow & {
  readonly deployment: string
  readonly is_drained: boolean
  readonly weight: number | null
}

type QueueRow = RecordRow & { readonly queue: string; readonly is_paused: boolean }

/** Returns what operators switched about deployments, with who did it last. */
export async function readDeploymentControls(
  sql: Sql,
): Promise<ReadonlyMap<string, DeploymentControl & ControlRecord>> {
  const { rows } = await sql.query<DeploymentRow>({
    name: 'read_deployment_controls',
    text: 'SELECT deployment, is_drained, weight, operator, reason, changed_at FROM deployment_controls',
    values: [],
  })
  return new Map(
    rows.map((row) => [row.deployment, { isDrained: row.is_drained, weight: row.weight, ...recordOf(row) }]),
  )
}

/** Returns the queues that were ever paused, with who paused or resumed them last. */
export async function readQueueControls(sql: Sql): Promise<ReadonlyMap<QueueName, ControlledQueue>> {
  const { rows } = await sql.query<QueueRow>({
    name: 'read_queue_controls',
    text: 'SELECT queue, is_paused, operator, reason, changed_at FROM queue_controls',
    values: [],
  })
  const byName = new Map(rows.map((row) => [row.queue, row]))
  return new Map(
    QUEUE_NAMES.flatMap((name) => {
      const row = byName.get(name)
      return row === undefined ? [] : [[name, { isPaused: row.is_paused, ...recordOf(row) }] as const]
    }),
  )
}

function recordOf({ operator, reason, changed_at: changedAt }: RecordRow): ControlRecord {
  return { operator, reason, changedAt }
}
