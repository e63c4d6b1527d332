import type { KeyUse } from '#shared/operators/key-problems.ts'
import type { Sql } from '../pool.ts'
import { readRows } from '../read-rows.ts'

/** Reads what still needs each settlement key, by address. */
export async function readKeyUse(sql: Sql): Promise<readonly KeyUse[]> {
  return await readRows<KeyUse>(sql, {
    name: 'read_key_use',
    text: `SELECT facilitator, count(*) FILTER (WHERE is_job)::int AS jobs, count(*) FILTER (WHERE NOT is_job)::int AS transactions
     FROM (
       SELECT authorizations.signed ->> 'facilitator' AS facilitator, true AS is_job
         FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
         WHERE jobs.state IN ('accepted', 'generating', 'generated', 'settling')
       UNION ALL SELECT facilitator, false FROM settlements WHERE state = 'signed'
         OR state = 'unproven' AND NOT EXISTS (SELECT FROM resolutions WHERE resolutions.job_id = settlements.job_id)
       UNION ALL SELECT facilitator, false FROM settlements WHERE state = 'confirmed' AND finalized_at IS NULL
       UNION ALL SELECT batches.facilitator, false
         FROM settlements JOIN settlement_batches AS batches ON batches.id = ANY(earlier_batches)
         WHERE earlier_batches IS NOT NULL AND (state = 'signed' OR state = 'confirmed' AND finalized_at IS NULL)) AS open
     WHERE facilitator IS NOT NULL GROUP BY 1 ORDER BY 1`,
    values: [],
  })
}
