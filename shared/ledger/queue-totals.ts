import { QUEUE_NAMES, type QueueName, type QueueTotals, queueOf } from '#shared/jobs/job-queue.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Sql } from './pool.ts'

export interface UnfinishedTotals {
  readonly queues: ReadonlyMap<QueueName, QueueTotals>
  /** Sum that unfinished jobs may still charge: the charge where it is fixed, the quoted maximum before. */
  readonly openExposure: AtomicAmount
}

interface UnfinishedRow {
  operation: string
  state: JobState
  waiting: number
  running: number
  deferred: number
  oldest: number
  oldest_deferred: number
  open: string
}

/** Reads unfinished jobs by queue, and what they may still charge. */
export async function readUnfinishedTotals(sql: Sql): Promise<UnfinishedTotals> {
  const { rows } = await sql.query<UnfinishedRow>(
    `SELECT operation, state,
       count(*) FILTER (WHERE is_waiting)::int AS waiting,
       count(*) FILTER (WHERE is_leased)::int AS running,
       count(*) FILTER (WHERE NOT is_leased AND NOT is_waiting)::int AS deferred,
       coalesce(extract(epoch FROM now() - min(run_after) FILTER (WHERE is_waiting)), 0)::float8 AS oldest,
       coalesce(extract(epoch FROM now() - min(deferred_since)), 0)::float8 AS oldest_deferred,
       sum(coalesce(charge_amount, quoted_maximum)) AS open
     FROM (SELECT *, lease_expires_at > now() IS TRUE AS is_leased,
         lease_expires_at > now() IS NOT TRUE AND run_after <= now() AND deferred_since IS NULL AS is_waiting FROM jobs
       WHERE state IN ('accepted', 'generating', 'generated', 'settling')) AS unfinished
     GROUP BY operation, state`,
  )
  return {
    queues: queuesOf(rows),
    openExposure: atomicAmount(rows.reduce((sum, { open }) => sum + BigInt(open), 0n)),
  }
}

function queuesOf(rows: readonly UnfinishedRow[]): ReadonlyMap<QueueName, QueueTotals> {
  const ofQueue = (name: QueueName): QueueTotals => {
    const own = rows.filter((row) => queueOf(row) === name)
    const sum = (column: 'waiting' | 'running' | 'deferred') => own.reduce((total, row) => total + row[column], 0)
    return {
      waiting: sum('waiting'),
      running: sum('running'),
      deferred: sum('deferred'),
      oldestWaitingSeconds: Math.max(0, ...own.map(({ oldest }) => oldest)),
      oldestDeferredSeconds: Math.max(0, ...own.map(({ oldest_deferred: oldest }) => oldest)),
    }
  }
  return new Map(QUEUE_NAMES.map((name) => [name, ofQueue(name)]))
}
