import { REVERTS_WINDOW_SECONDS, settlementPause } from '#shared/payment/settlement-retry.ts'
import type { Sql } from '../pool.ts'
import { AcceptanceRefused } from './acceptance-refused.ts'

interface RevertsRow {
  of_job: string
  since_job: number | null
  of_payer: string
  since_payer: number | null
  settles_another: boolean
}

/**
 * Throws `AcceptanceRefused` when so many settlements of this job or payer reverted lately that the next one must wait.
 * Called under the lock of the payer, so that simultaneous payments count each other.
 */
export async function refuseAfterReverts(sql: Sql, jobId: string, payer: string): Promise<void> {
  const { rows } = await sql.query<RevertsRow>({
    name: 'read_recent_reverts',
    text: `SELECT count(*) FILTER (WHERE job_id = $2) AS of_job, count(*) AS of_payer,
       extract(epoch FROM clock_timestamp() - max(finished_at) FILTER (WHERE job_id = $2))::float8 AS since_job,
       extract(epoch FROM clock_timestamp() - max(finished_at))::float8 AS since_payer,
       EXISTS (SELECT 1 FROM jobs WHERE payer = $1 AND finished_at IS NULL AND id <> $2
         AND state IN ('generated', 'settling')) AS settles_another
     FROM settlements
     WHERE payer = $1 AND state = 'reverted' AND gas_used IS NOT NULL
       AND finished_at > now() - make_interval(secs => $3)`,
    values: [payer, jobId, REVERTS_WINDOW_SECONDS],
  })
  const [row] = rows
  if (!row) return
  const retryAfterSeconds = settlementPause({
    ofJob: { count: Number(row.of_job), secondsSinceNewest: row.since_job ?? 0 },
    ofPayer: { count: Number(row.of_payer), secondsSinceNewest: row.since_payer ?? 0 },
    settlesAnother: row.settles_another,
  })
  if (retryAfterSeconds > 0) throw new AcceptanceRefused({ outcome: 'settlement_retry_limit', retryAfterSeconds })
}
