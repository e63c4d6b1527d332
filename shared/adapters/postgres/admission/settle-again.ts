import type { Acceptance, NewJob } from '#shared/jobs/job-store.ts'
import type { Sql } from '../pool.ts'
import { claimNonce } from './claim-nonce.ts'

/** settlement_failed → generated: the result is stored, so the fresh authorization pays for it without another call. */
export async function settleAgain(sql: Sql, jobId: string, job: NewJob): Promise<Acceptance> {
  const claim = await claimNonce(sql, jobId, job)
  if (claim.outcome !== 'claimed') return claim
  await sql.query(
    `UPDATE jobs SET state = 'generated', authorization_id = $2, charge_amount = LEAST(charge_amount, $3),
       request_id = $4, traceparent = $5,
       failure_code = NULL, failure_reason = NULL, finished_at = NULL, is_owed = false,
       fence = fence + 1, lease_expires_at = NULL, run_after = now(), enqueued_at = NULL
     WHERE id = $1 AND state = 'settlement_failed'`,
    [
      jobId,
      claim.authorizationId,
      job.authorization.authorizedMaximum.toString(),
      job.origin.requestId,
      job.origin.traceparent,
    ],
  )
  return { outcome: 'settles_again', jobId }
}

/** Whoever pays for a stored result should have at least this long to fetch its media. */
const SHORTEST_MEDIA_LIFE_SECONDS = 3600

/** Whether there is a result to release, with its media. Of a job that was run again the earlier media do not matter. */
export async function isResultWhole(sql: Sql, jobId: string): Promise<boolean> {
  const { rows } = await sql.query(
    `SELECT 1 FROM jobs WHERE id = $1 AND result_body IS NULL
     UNION ALL SELECT 1 FROM media WHERE job_id = $1
       HAVING max(expires_at) <= now() + make_interval(secs => $2)`,
    [jobId, SHORTEST_MEDIA_LIFE_SECONDS],
  )
  return rows.length === 0
}
