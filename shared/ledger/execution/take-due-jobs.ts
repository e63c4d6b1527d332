import type { QueueName } from '#shared/jobs/job-queue.ts'
import type { Job, JobState } from '#shared/jobs/job.ts'
import { operations } from '#shared/operations/registry.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

/** The part of a job that the sweepers need in order to enqueue it. */
export type DueJob = Pick<Job, 'id' | 'operation'> & { readonly state: JobState }

/**
 * A job enqueued this long ago and still not leased was lost by the queue, or waits in a long one, where a duplicate
 * is harmless.
 */
const ENQUEUE_AGAIN_AFTER_SECONDS = 10
/** How long an accepted job is left to the API, which enqueues it: it would otherwise be enqueued twice in many calls. */
const LEFT_TO_API_SECONDS = 0.5
/**
 * How many deferred jobs of one payer are enqueued or run at a time, in all workers together: of those that wait for a
 * provider call, and of those that wait for their settlement. Whatever deferred them
 * may keep each one busy until a timeout, and they must not take the slots of other payers' jobs.
 */
const DEFERRED_AT_A_TIME = 4

/** Not leased, and not enqueued recently. A job whose lease expired is free immediately: its worker is gone. */
const IS_FREE = `(lease_expires_at IS NULL OR lease_expires_at <= now())
  AND (enqueued_at IS NULL OR enqueued_at < lease_expires_at
    OR enqueued_at <= now() - make_interval(secs => ${ENQUEUE_AGAIN_AFTER_SECONDS}))`

/**
 * Returns the unfinished jobs in `states` that are due and free, and marks them as enqueued: first those that were
 * never deferred in their state, then deferred ones, payer by payer. At most `limit` of each. A provider call is never
 * deferred, but a worker of the previous version may have left that mark. Jobs of paused queues are left out; lost
 * provider calls are not, since they are ended without their queue.
 */
export async function takeDueJobs(
  sql: Sql,
  states: readonly JobState[],
  limit: number,
  pausedQueues: ReadonlySet<QueueName> = new Set(),
): Promise<readonly DueJob[]> {
  const due: Due = {
    states: pausedQueues.has('settlement') ? states.filter((state) => !SETTLEMENT_STATES.includes(state)) : states,
    pausedOperations: operations.filter(({ queue }) => pausedQueues.has(queue)).map(({ id }) => id),
    limit,
  }
  if (due.states.length === 0) return []
  return [...(await takeFresh(sql, due)), ...(await takeDeferred(sql, due))]
}

interface Due {
  readonly states: readonly JobState[]
  readonly pausedOperations: readonly string[]
  readonly limit: number
}

const SETTLEMENT_STATES: readonly JobState[] = ['generated', 'settling']

/** In the words of their partial index, which a list of states that is a parameter does not imply. */
const IS_UNFINISHED = "state IN ('accepted', 'generating', 'generated', 'settling')"

async function takeFresh(sql: Sql, { states, pausedOperations, limit }: Due): Promise<readonly DueJob[]> {
  return await readRows<DueJob>(sql, {
    name: 'take_fresh_jobs',
    text: `UPDATE jobs SET enqueued_at = now() WHERE id IN (
       SELECT id FROM jobs
       WHERE state = ANY($1) AND ${IS_UNFINISHED} AND run_after <= now()
         AND (deferred_since IS NULL OR state = 'generating') AND ${IS_FREE}
         AND NOT (state = 'accepted' AND run_after > now() - make_interval(secs => ${LEFT_TO_API_SECONDS}))
         AND NOT (state = 'accepted' AND operation = ANY($3))
       ORDER BY run_after LIMIT $2 FOR UPDATE SKIP LOCKED)
     RETURNING id, operation, state`,
    values: [states, limit, pausedOperations],
  })
}

/** Takes deferred jobs. Ranks those of each payer, jobs in flight first, so that these use up the payer's share. */
async function takeDeferred(sql: Sql, { states, pausedOperations, limit }: Due): Promise<readonly DueJob[]> {
  return await readRows<DueJob>(sql, {
    name: 'take_deferred_jobs',
    text: `UPDATE jobs SET enqueued_at = now() WHERE id IN (
       SELECT jobs.id FROM jobs JOIN (
         SELECT id, row_number() OVER (PARTITION BY payer, state = 'accepted' ORDER BY is_free, run_after) AS rank
         FROM (SELECT id, payer, state, run_after, (${IS_FREE}) IS TRUE AS is_free FROM jobs
           WHERE deferred_since IS NOT NULL AND run_after <= now()
             AND state IN ('accepted', 'generated', 'settling')
             AND NOT (state = 'accepted' AND operation = ANY($4))) AS due) AS ranked USING (id)
       WHERE rank <= $3 AND state = ANY($1) AND ${IS_FREE}
       ORDER BY rank, run_after LIMIT $2 FOR UPDATE OF jobs SKIP LOCKED)
     RETURNING id, operation, state`,
    values: [states, limit, DEFERRED_AT_A_TIME, pausedOperations],
  })
}
