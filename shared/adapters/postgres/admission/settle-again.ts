import type { Acceptance, NewJob } from '#shared/jobs/admission-store.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { AcceptanceRefused } from './acceptance-refused.ts'
import { claimNonce } from './claim-nonce.ts'
import { refuseAfterReverts } from './refuse-after-reverts.ts'

/**
 * Moves settlement_failed → generated: the new authorization pays for the stored result, without another provider call.
 * Refuses this only during a pause after settlements that reverted.
 */
export async function settleAgain(sql: Sql, jobId: string, job: NewJob): Promise<Acceptance> {
  const claim = await claimNonce(sql, jobId, job, null)
  if (claim.outcome !== 'claimed') return claim
  await refuseAfterReverts(sql, jobId, job.authorization.payer)
  const { rowCount } = await sql.query({
    name: 'settle_again',
    text: `UPDATE jobs SET state = 'generated', ${NOT_DEFERRED}, authorization_id = $2, charge_amount = LEAST(charge_amount, $3),
       request_id = $4, traceparent = $5,
       failure_code = NULL, failure_reason = NULL, finished_at = NULL, is_owed = false,
       fence = fence + 1, lease_expires_at = NULL, run_after = now(), enqueued_at = NULL
     WHERE id = $1 AND state = 'settlement_failed'`,
    values: [
      jobId,
      claim.authorizationId,
      job.authorization.authorizedMaximum.toString(),
      job.origin.requestId,
      job.origin.traceparent,
    ],
  })
  // The earlier settlement succeeded after all, and its job was reopened in the meantime.
  if (rowCount !== 1) throw new AcceptanceRefused({ outcome: 'exists', jobId })
  return { outcome: 'settles_again', jobId }
}

/** The least time that a payer of a stored result must have to fetch its media. */
const SHORTEST_MEDIA_LIFE_SECONDS = 3600

/**
 * Returns whether the result is still stored, with media that live long enough. Of a job that ran twice the newest
 * media count.
 */
export async function isResultComplete(sql: Sql, jobId: string): Promise<boolean> {
  const { rows } = await sql.query({
    name: 'find_missing_result',
    text: `SELECT 1 FROM jobs WHERE id = $1 AND result_body IS NULL
     UNION ALL SELECT 1 FROM media WHERE job_id = $1
       HAVING max(expires_at) <= now() + make_interval(secs => $2)`,
    values: [jobId, SHORTEST_MEDIA_LIFE_SECONDS],
  })
  return rows.length === 0
}
