import type { Author } from '#shared/operators/author.ts'
import type { QueueChange, QueueChangeOutcome } from '#shared/operators/control-store.ts'
import { recordAction } from '../operators/record-action.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { lockConfiguration, raiseRevision } from './raise-revision.ts'
import { readRevision } from './read-revision.ts'

/** Pauses or resumes a queue on all workers. */
export async function controlQueue(pool: Pool, author: Author, change: QueueChange): Promise<QueueChangeOutcome> {
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
