import type { Sql } from '../pool.ts'

export interface UnfinishedJobs {
  readonly state: string
  readonly count: number
  readonly oldestJobId: string
  /** Since acceptance, by the database's clock. */
  readonly oldestAgeMs: number
}

/** Returns for each unfinished state its number of jobs and the age of the oldest one. */
export async function readUnfinishedJobs(sql: Sql): Promise<readonly UnfinishedJobs[]> {
  const { rows } = await sql.query<UnfinishedJobs>(
    `SELECT state, count(*)::int AS count, (array_agg(id ORDER BY accepted_at))[1] AS "oldestJobId",
       floor(extract(epoch FROM clock_timestamp() - min(accepted_at)) * 1000)::double precision AS "oldestAgeMs"
     FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling')
     GROUP BY state ORDER BY min(accepted_at)`,
  )
  return rows
}
