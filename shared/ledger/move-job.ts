import type { JobState, LeasedJob, Written } from '#shared/jobs/job.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import { columnsOf, listed } from './listed.ts'
import type { Pool, Sql } from './pool.ts'
import { type LockedRows, shareStatement } from './share-statements.ts'
import { inTransaction } from './transaction.ts'

/** Adds a value to the statement's parameters and returns its placeholder. */
export type Parameter = (value: unknown) => string

/** Assignments of every move: a job that moved has not been deferred in its new state. */
export const NOT_DEFERRED = 'deferred_since = NULL, deferrals = 0, payment_blocked_since = NULL'

/** One transition's statement. Each combination of optional parts has a separate name. */
export interface Transition {
  readonly name: string
  /** Further assignments to the job's row. */
  readonly set?: readonly string[]
  /**
   * Writes to other rows: common table expressions over `moved`, which is the job's row, or empty when the fence was
   * lost.
   */
  readonly together?: readonly string[]
}

/**
 * Moves a job to `to`, from an unfinished state that may precede it (only a payment reopens a finished job) and only
 * under the fence of this claim; the other writes depend on that. One statement, so one transaction and one round trip.
 * Waiting API processes are notified on commit when the job is finished.
 */
export async function moveJob(
  sql: Sql,
  job: LeasedJob,
  to: JobState,
  transition: (parameter: Parameter) => Transition,
): Promise<Written> {
  const values: unknown[] = [job.id, job.fence.toString(), to, statesBefore(to).filter(isUnfinished)]
  const { name, set = [], together = [] } = transition((value) => `$${values.push(value)}`)
  const moved = `moved AS (
    UPDATE jobs SET ${['state = $3', NOT_DEFERRED, ...set].join(', ')}
    WHERE id = $1 AND fence = $2 AND state = ANY($4) RETURNING id)`
  const text = `WITH ${[moved, ...together].join(',\n')}
     SELECT id${notified(to)} FROM moved`
  const { rowCount } = await sql.query({ name, text, values })
  return rowCount === 1 ? 'written' : 'stale'
}

/** A further column that notifies of a job which moved to a state that ends it. */
function notified(to: JobState): string {
  return isUnfinished(to) ? '' : ", pg_notify('farebox_outcomes', id::text)"
}

/** A transition's statement for one or more jobs. */
export interface SharedTransition<Move> {
  readonly to: JobState
  readonly name: string
  /** What differs between the jobs: columns of `moved`, with their types. */
  readonly columns: readonly { readonly name: string; readonly type: string; readonly of: (move: Move) => unknown }[]
  /** Further assignments to the jobs' rows, from the columns of `free`. */
  readonly set?: readonly string[]
  /** Writes to other rows: common table expressions over `moved`, which is the jobs that moved. */
  readonly together?: readonly string[]
}

/** Creates a function that moves a job, in one statement with those that move at the same time; `stale` after a lost fence. */
export function shareMove<Move extends { readonly job: LeasedJob }>(
  sql: Sql,
  transition: SharedTransition<Move>,
): (move: Move) => Promise<Written> {
  return shareStatement<Move, Written>({
    keyOf: ({ job }) => job.id,
    run: async (moves, lockedRows) => {
      const moved = await moveJobs(sql, moves, transition, lockedRows)
      return new Map(moved.map((id) => [id, 'written']))
    },
    skipped: () => 'stale',
  })
}

/**
 * Moves jobs in one statement, each under its own fence, and returns the ids of those that moved. Leaves out a job whose
 * fence or state does not fit. Waiting API processes are notified on commit of each job that is finished.
 */
export async function moveJobs<Move extends { readonly job: LeasedJob }>(
  sql: Sql,
  moves: readonly Move[],
  { to, name, columns, set = [], together = [] }: SharedTransition<Move>,
  lockedRows: LockedRows,
): Promise<readonly string[]> {
  const types = ['uuid', 'bigint', ...columns.map(({ type }) => type)]
  const names = ['id', 'fence', ...columns.map((column) => column.name)]
  const further = names.slice(2).map((column) => `free.${column}`)
  const states = `$${types.length + 1}`
  const parts = [
    `mine AS (SELECT ${names.join(', ')} FROM ${listed(...types)} AS mine (${names.join(', ')}))`,
    `free AS (
       SELECT ${names.map((column) => `mine.${column}`).join(', ')} FROM mine CROSS JOIN LATERAL (
         SELECT FROM jobs WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND state = ANY(${states})
         ${LOCK_JOBS[lockedRows]}) AS locked)`,
    `moved AS (
       UPDATE jobs SET ${[`state = $${types.length + 2}`, NOT_DEFERRED, ...set].join(', ')}
       FROM free WHERE jobs.id = free.id RETURNING ${['jobs.id', ...further].join(', ')})`,
    ...together,
  ]
  const { rows } = await sql.query<{ id: string }>({
    name: `${name}${NAME_SUFFIX[lockedRows]}`,
    text: `WITH ${parts.join(',\n')}\nSELECT id${notified(to)} FROM moved`,
    values: [
      ...columnsOf(moves.map((move) => [move.job.id, move.job.fence.toString(), ...columns.map(({ of }) => of(move))])),
      statesBefore(to).filter(isUnfinished),
      to,
    ],
  })
  return rows.map(({ id }) => id)
}

/** Locks the rows of jobs that are updated. */
export const LOCK_JOBS: Record<LockedRows, string> = {
  skip: 'FOR NO KEY UPDATE SKIP LOCKED',
  wait: 'FOR NO KEY UPDATE',
}
/** Tells the two prepared statements of one text apart. */
export const NAME_SUFFIX: Record<LockedRows, string> = { skip: '', wait: '_waiting' }

/** Thrown inside a transaction to roll it back; never leaves this file. */
class StaleFence extends Error {}

/**
 * Locks the job's row until the transaction ends; throws `StaleFence` unless the job is in `state` under this claim's
 * fence.
 */
export async function lockLeasedJob(sql: Sql, job: LeasedJob, state: JobState): Promise<void> {
  const { rowCount } = await sql.query({
    name: 'lock_claimed_job',
    text: 'SELECT 1 FROM jobs WHERE id = $1 AND fence = $2 AND state = $3 FOR UPDATE',
    values: [job.id, job.fence.toString(), state],
  })
  if (rowCount !== 1) throw new StaleFence(`job ${job.id} is no longer claimed by this worker while ${state}`)
}

/** Runs fenced writes in one transaction; returns `stale` after a lost fence, with everything rolled back. */
export async function inFencedTransaction(pool: Pool, work: (sql: Sql) => Promise<void>): Promise<Written> {
  try {
    await inTransaction(pool, work)
    return 'written'
  } catch (error) {
    if (error instanceof StaleFence) return 'stale'
    throw error
  }
}
