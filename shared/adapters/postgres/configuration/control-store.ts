import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { Author } from '#shared/operators/author.ts'
import type { DeploymentControl } from '#shared/operators/configuration.ts'
import { bindTo } from '../bind-to.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { controlDeployment } from './control-deployment.ts'
import { lockConfiguration, raiseRevision, readRevision } from './revision.ts'

export type ControlStore = ReturnType<typeof createControlStore>

/** Creates the store of what operators switch without a publication. Every change is recorded, and acts on all processes within 2 s. */
export function createControlStore(pool: Pool) {
  return bindTo(pool, { readDeploymentControls, readQueueControls, controlDeployment, controlQueue })
}

export interface QueueChange {
  readonly queue: QueueName
  readonly isPaused: boolean
  readonly reason: string
}

export interface QueueChangeOutcome {
  readonly outcome: 'changed' | 'unchanged'
  readonly revision: bigint
}

/** Pauses or resumes a queue on all workers. */
async function controlQueue(pool: Pool, author: Author, change: QueueChange): Promise<QueueChangeOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const { queue, isPaused, reason } = change
    if ((await isQueuePaused(sql, queue)) === isPaused)
      return { outcome: 'unchanged', revision: await readRevision(sql) }
    const revision = await raiseRevision(sql)
    await sql.query({
      name: 'control_queue',
      text: `INSERT INTO queue_controls (queue, is_paused, operator, reason) VALUES ($1, $2, $3, $4)
        ON CONFLICT (queue) DO UPDATE SET is_paused = EXCLUDED.is_paused, operator = EXCLUDED.operator,
          reason = EXCLUDED.reason, changed_at = now()`,
      values: [queue, isPaused, author.operator, reason],
    })
    await recordAction(sql, author, { action: isPaused ? 'queue.pause' : 'queue.resume', subject: queue, reason })
    return { outcome: 'changed', revision }
  })
}

async function isQueuePaused(sql: Sql, queue: string): Promise<boolean> {
  const { rows } = await sql.query<{ is_paused: boolean }>({
    name: 'is_queue_paused',
    text: 'SELECT is_paused FROM queue_controls WHERE queue = $1',
    values: [queue],
  })
  return rows[0]?.is_paused ?? false
}

/** Who made a change that acts at once, when and why. */
export interface ControlRecord {
  readonly operator: string
  readonly reason: string | null
  readonly changedAt: Date
}

export interface ControlledQueue extends ControlRecord {
  readonly isPaused: boolean
}

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
async function readDeploymentControls(sql: Sql): Promise<ReadonlyMap<string, DeploymentControl & ControlRecord>> {
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
async function readQueueControls(sql: Sql): Promise<ReadonlyMap<QueueName, ControlledQueue>> {
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
