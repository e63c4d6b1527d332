import { setTimeout as delay } from 'node:timers/promises'
import type { Sql } from '../pool.ts'

/** By then a worker has most jobs, which need no mark. */
const MARK_AFTER_MS = 100

/**
 * Marks jobs as enqueued, so that the sweeper does not enqueue them again: in batches, and only those that still wait.
 * A job that was claimed and deferred in the meantime is left to the sweeper.
 */
export function createEnqueuedMarker(sql: Sql): (jobId: string) => Promise<void> {
  let pending: { readonly jobIds: string[]; readonly marked: Promise<void> } | null = null
  const markLater = async (jobIds: string[]) => {
    await delay(MARK_AFTER_MS)
    pending = null
    await markEnqueued(sql, jobIds)
  }
  return (jobId) => {
    const jobIds = pending?.jobIds ?? []
    jobIds.push(jobId)
    pending ??= { jobIds, marked: markLater(jobIds) }
    return pending.marked
  }
}

async function markEnqueued(sql: Sql, jobIds: readonly string[]): Promise<void> {
  await sql.query({
    name: 'mark_enqueued',
    text: `UPDATE jobs SET enqueued_at = now()
     WHERE id = ANY($1) AND state IN ('accepted', 'generated') AND lease_expires_at IS NULL AND run_after <= now()`,
    values: [jobIds],
  })
}
