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
      text: `INSERT INTO controls (kind, subject, is_stopped, operator, reason) VALUES ('queue', $1, $2, $3, $4)
        ON CONFLICT (kind, subject) DO UPDATE SET is_stopped = EXCLUDED.is_stopped, operator = EXCLUDED.operator,
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
      text: `INSERT INTO controls (kind, subject, is_stopped, stopped_until, operator, reason) VALUES ('payer', $1, $2, $3, $4, $5)
        ON CONFLICT (kind, subject) DO UPDATE SET is_stopped = EXCLUDED.is_stopped, stopped_until = EXCLUDED.stopped_until,
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

/** Whether a block is in force. */
const IS_BLOCKED = 'is_stopped AND coalesce(stopped_until > now(), true)'
const PAYER_CONTROL = `subject, ${IS_BLOCKED} AS is_stopped, stopped_until, operator, reason, changed_at`

/** Returns whether a payer is blocked, and who blocked or unblocked it last; `null` if nobody ever did. */
async function readPayerControl(sql: Sql, payer: string): Promise<ControlledPayer | null> {
  const { rows } = await sql.query<PayerRow>({
    name: 'read_payer_control',
    text: `SELECT ${PAYER_CONTROL} FROM controls WHERE kind = 'payer' AND subject = $1`,
    values: [payer],
  })
  return rows.map(controlledPayer)[0] ?? null
}

/** Returns the payers that are blocked, the last one first. */
async function readBlockedPayers(sql: Sql): Promise<readonly ControlledPayer[]> {
  const { rows } = await sql.query<PayerRow>({
    name: 'read_blocked_payers',
    text: `SELECT ${PAYER_CONTROL} FROM controls
     WHERE kind = 'payer' AND ${IS_BLOCKED} ORDER BY changed_at DESC, subject`,
    values: [],
  })
  return rows.map(controlledPayer)
}

function controlledPayer(row: PayerRow): ControlledPayer {
  return { payer: row.subject, isBlocked: row.is_stopped, until: row.stopped_until, ...recordOf(row) }
}

async function isQueuePaused(sql: Sql, queue: string): Promise<boolean> {
  const { rows } = await sql.query<{ is_stopped: boolean }>({
    name: 'is_queue_paused',
    text: "SELECT is_stopped FROM controls WHERE kind = 'queue' AND subject = $1",
    values: [queue],
  })
  return rows[0]?.is_stopped ?? false
}

/** Who made a change that acts at once, when and why. */
export interface ControlRecord {
  readonly operator: string
  readonly reason: string
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

interface ControlRow {
  readonly subject: string
  readonly is_stopped: boolean
  readonly operator: string
  readonly reason: string
  readonly changed_at: Date
}

type DeploymentRow = ControlRow & { readonly weight: number | null }
type PayerRow = ControlRow & { readonly stopped_until: Date | null }

/** Returns what operators switched about deployments, with who did it last. */
async function readDeploymentControls(sql: Sql): Promise<ReadonlyMap<string, DeploymentControl & ControlRecord>> {
  const { rows } = await sql.query<DeploymentRow>({
    name: 'read_deployment_controls',
    text: `SELECT subject, is_stopped, weight, operator, reason, changed_at FROM controls WHERE kind = 'deployment'`,
    values: [],
  })
  return new Map(rows.map((row) => [row.subject, { isDrained: row.is_stopped, weight: row.weight, ...recordOf(row) }]))
}

/** Returns the queues that were ever paused, with who paused or resumed them last. */
async function readQueueControls(sql: Sql): Promise<ReadonlyMap<QueueName, ControlledQueue>> {
  const { rows } = await sql.query<ControlRow>({
    name: 'read_queue_controls',
    text: `SELECT subject, is_stopped, operator, reason, changed_at FROM controls WHERE kind = 'queue'`,
    values: [],
  })
  const byName = new Map(rows.map((row) => [row.subject, row]))
  return new Map(
    QUEUE_NAMES.flatMap((name) => {
      const row = byName.get(name)
      return row === undefined ? [] : [[name, { isPaused: row.is_stopped, ...recordOf(row) }] as const]
    }),
  )
}

function recordOf({ operator, reason, changed_at: changedAt }: ControlRow): ControlRecord {
  return { operator, reason, changedAt }
}
