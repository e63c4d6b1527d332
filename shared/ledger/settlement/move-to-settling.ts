import type { LeasedJob, StoredSettlement } from '#shared/jobs/job.ts'
import { isUnfinished, statesBefore } from '#shared/jobs/transitions.ts'
import { listed } from '../listed.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Sql } from '../pool.ts'

/**
 * `settled_before`: an earlier settlement of the job was not looked up. `queue_full`: the key has as many unmined
 * transactions as nodes hold, so nothing was signed; it can once the chain has mined one.
 */
export type RecordingOutcome = StoredSettlement | 'stale' | 'settled_before' | 'queue_full'

/** A job to settle, and the ids of its earlier settlements that were looked up on chain. */
export interface Claim {
  readonly job: LeasedJob
  readonly lookedUp: readonly string[]
}

/** An earlier settlement of a job that was not looked up on chain. `$3` are the ids of those that were. */
const NOT_LOOKED_UP = `SELECT 1 FROM settlements
  WHERE settlements.job_id = jobs.id AND settlements.state IN ('reverted', 'surplus') AND settlements.id <> ALL($3::uuid[])`

/**
 * Moves several jobs with the guard of every transition, and only those that no earlier settlement may have charged.
 * Returns the ids of those that moved.
 */
export async function moveToSettling(sql: Sql, claims: readonly Claim[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'move_jobs_to_settling',
    text: `UPDATE jobs SET state = 'settling', ${NOT_DEFERRED}
     FROM ${listed('uuid', 'bigint')} AS mine (id, fence)
     WHERE jobs.id = mine.id AND jobs.fence = mine.fence AND state = ANY($4) AND NOT EXISTS (${NOT_LOOKED_UP})
     RETURNING jobs.id`,
    values: [...valuesOf(claims), statesBefore('settling').filter(isUnfinished)],
  })
  return new Set(rows.map(({ id }) => id))
}

/** Returns the outcome of each claim, in their order, given the settlements of those that moved. */
export async function outcomesOf(
  sql: Sql,
  claims: readonly Claim[],
  recorded: ReadonlyMap<string, StoredSettlement>,
): Promise<readonly RecordingOutcome[]> {
  const held = recorded.size === claims.length ? new Set<string>() : await findSettledBefore(sql, claims)
  return claims.map(({ job }) => recorded.get(job.id) ?? (held.has(job.id) ? 'settled_before' : 'stale'))
}

/** Returns the ids of jobs that are still claimed and did not move because of an earlier settlement. */
async function findSettledBefore(sql: Sql, claims: readonly Claim[]): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>({
    name: 'find_settled_before',
    text: `SELECT jobs.id FROM jobs JOIN ${listed('uuid', 'bigint')} AS mine (id, fence) USING (id, fence)
     WHERE state = 'generated' AND EXISTS (${NOT_LOOKED_UP})`,
    values: [...valuesOf(claims)],
  })
  return new Set(rows.map(({ id }) => id))
}

function valuesOf(claims: readonly Claim[]): readonly (readonly string[])[] {
  return [
    claims.map(({ job }) => job.id),
    claims.map(({ job }) => job.fence.toString()),
    claims.flatMap(({ lookedUp }) => lookedUp),
  ]
}
