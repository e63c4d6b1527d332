import { QUEUE_NAMES, type QueueName } from '#shared/jobs/job-queue.ts'
import type { Author } from '#shared/operators/author.ts'
import type { DeploymentControl } from '#shared/operators/configuration.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { controlDeployment } from './control-deployment.ts'
import { lockConfiguration, raiseRevision, readRevision } from './revision.ts'

export type ControlStore = ReturnType<typeof createControlStore>

/** Creates the store of what operators switch without a publication. Every change is recorded, and acts on all processes within 2 s. */
export function createControlStore(pool: Pool) {
  return bindTo(pool, {
    readDeploymentControls,
    readQueueControls,
    controlDeployment,
    controlQueue,
    controlPayer,
    readPayerControl,
    readBlockedPayers,
  })
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

export interface PayerChange {
  /** In lower case. */
  readonly payer: string
  readonly isBlocked: boolean
  /** The end of a block; `null` for one that an operator ends. */
  readonly until: Date | null
  readonly reason: string
}

/** Blocks or unblocks a payer on all APIs. A block that has ended counts as none. */
async function controlPayer(pool: Pool, author: Author, change: PayerChange): Promise<QueueChangeOutcome> {
  return await inTransaction(pool, async (sql) => {
    await lockConfiguration(sql)
    const { payer, isBlocked, until, reason } = change
    const current = await readPayerControl(sql, payer)
    const isSame = isBlocked && current?.until?.getTime() === until?.getTime()
    if ((current?.isBlocked ?? false) === isBlocked && (!isBlocked || isSame))
      return { outcome: 'unchanged', revision: await readRevision(sql) }
    const revision = await raiseRevision(sql)
    await sql.query({
      name: 'control_payer',
      text: `INSERT INTO payer_controls (payer, is_blocked, blocked_until, operator, reason) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (payer) DO UPDATE SET is_blocked = EXCLUDED.is_blocked, blocked_until = EXCLUDED.blocked_until,
          operator = EXCLUDED.operator, reason = EXCLUDED.reason, changed_at = now()`,
      values: [payer, isBlocked, isBlocked ? until : null, author.operator, reason],
    })
    await recordAction(sql, author, {
      action: isBlocked ? 'payer.block' : 'payer.unblock',
      subject: payer,
      reason,
      details: { until: until?.toISOString() ?? null },
    })
    return { outcome: 'changed', revision }
  })
}

const PAYER_CONTROL = `payer, is_blocked AND coalesce(blocked_until > now(), true) AS is_blocked, blocked_until, operator, reason,
  changed_at`

/** Returns whether a payer is blocked, and who blocked or unblocked it last; `null` if nobody ever did. */
async function readPayerControl(sql: Sql, payer: string): Promise<ControlledPayer | null> {
  const { rows } = await sql.query<PayerRow>({
    name: 'read_payer_control',
    text: `SELECT ${PAYER_CONTROL} FROM payer_controls WHERE payer = $1`,
    values: [payer],
  })
  return rows.map(controlledPayer)[0] ?? null
}

/** Returns the payers that are blocked, the last one first. */
async function readBlockedPayers(sql: Sql): Promise<readonly ControlledPayer[]> {
  const { rows } = await sql.query<PayerRow>({
    name: 'read_blocked_payers',
    text: `SELECT ${PAYER_CONTROL} FROM payer_controls
     WHERE is_blocked AND coalesce(blocked_until > now(), true) ORDER BY changed_at DESC, payer`,
    values: [],
  })
  return rows.map(controlledPayer)
}

function controlledPayer(row: PayerRow): ControlledPayer {
  return { payer: row.payer, isBlocked: row.is_blocked, until: row.blocked_until, ...recordOf(row) }
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

export interface ControlledPayer extends ControlRecord {
  readonly payer: string
  readonly isBlocked: boolean
  readonly until: Date | null
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

type PayerRow = RecordRow & {
  readonly payer: string
  readonly is_blocked: boolean
  readonly blocked_until: Date | null
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
