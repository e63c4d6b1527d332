import { statesBefore } from '#shared/jobs/transitions.ts'
import { SHORTEST_MEDIA_LIFE_SECONDS } from '#shared/media/retention.ts'
import { REVERTS_WINDOW_SECONDS, settlementPause } from '#shared/payment/settlement-retry.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { readOne } from '../read-rows.ts'
import { insertStagedUpload } from '../retention/staged-uploads.ts'
import { type Acceptance, AcceptanceRefused, type NewJob } from './acceptance.ts'
import { claimOne } from './claim-and-judge.ts'
import { findNonceHolder } from './claim-nonces.ts'
import type { UnchargedLimits } from './judge-payments.ts'

/**
 * Moves failed or settlement_failed → accepted: nothing was charged; the new authorization pays for a new attempt at
 * the new quote. A withheld result that is replaced was work without a charge.
 */
export async function runAgain(sql: Sql, jobId: string, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const { accepted: claim } = await claimOne(sql, claimOfHolder(jobId, job), limits)
  if (!claim) return await findNonceHolder(sql, jobId, job.authorization)
  await insertStagedUpload(sql, jobId, job.stagedUpload)
  const { rowCount } = await sql.query({
    name: 'run_again',
    text: `WITH replaced AS (
         INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, client_network)
         SELECT jobs.id, authorizations.id, network, jobs.payer, 'replaced_result', charge_amount, is_new_payer,
           CASE WHEN is_new_payer THEN client_network END
         FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
         WHERE jobs.id = $1 AND state = 'settlement_failed')
       UPDATE jobs SET state = 'accepted', ${NOT_DEFERRED}, authorization_id = $2, staged_upload_id = $3, quoted_maximum = $4,
       catalog_version = $5, terms = $6, effective_request = convert_from($8, 'UTF8'),
       request_id = $9, traceparent = $10,
       failure_code = NULL, failure_reason = NULL, finished_at = NULL, is_owed = false,
       usage = NULL, charge_amount = NULL, result_body = NULL, result_digest = NULL, result_expired_at = NULL,
       fence = fence + 1, lease_expires_at = NULL, orphaned_at = NULL, run_after = now(), enqueued_at = NULL,
       accepted_at = statement_timestamp(), is_new_payer = $11, client_network = $12
     WHERE id = $1 AND state = ANY($7)`,
    values: [
      jobId,
      claim.authorizationId,
      job.stagedUpload?.id ?? null,
      job.quote.quotedMaximum.toString(),
      job.quote.catalogVersion,
      JSON.stringify(job.quote.terms),
      statesBefore('accepted'),
      job.effectiveJson,
      job.origin.requestId,
      job.origin.traceparent,
      claim.isNewPayer,
      job.clientNetwork,
    ],
  })
  // The earlier settlement succeeded after all, and its job was reopened in the meantime.
  if (rowCount !== 1) throw new AcceptanceRefused({ outcome: 'exists', jobId })
  return { outcome: 'accepted', jobId }
}

/**
 * Moves settlement_failed → generated: the new authorization pays for the stored result, without another provider call.
 * Refuses this only during a pause after settlements that reverted.
 */
export async function settleAgain(sql: Sql, jobId: string, job: NewJob): Promise<Acceptance> {
  const { accepted: claim } = await claimOne(sql, claimOfHolder(jobId, job), null)
  if (!claim) return await findNonceHolder(sql, jobId, job.authorization)
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

function claimOfHolder(jobId: string, job: NewJob) {
  return { job, jobId, authorizationId: newId(), holder: jobId }
}

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
    values: [jobId, SHORTEST_MEDIA_LIFE_SECONDS.whenPaid],
  })
  return rows.length === 0
}

interface RevertsRow {
  readonly ofJob: bigint
  readonly sinceJob: number | null
  readonly ofPayer: bigint
  readonly sincePayer: number | null
  readonly settlesAnother: boolean
}

/**
 * Throws `AcceptanceRefused` when so many settlements of this job or payer reverted lately that the next one must wait.
 * Called under the lock of the payer, so that simultaneous payments count each other.
 */
async function refuseAfterReverts(sql: Sql, jobId: string, payer: string): Promise<void> {
  const { ofJob, sinceJob, ofPayer, sincePayer, settlesAnother } = await readOne<RevertsRow>(sql, {
    name: 'read_recent_reverts',
    text: `SELECT count(*) FILTER (WHERE job_id = $2) AS "ofJob", count(*) AS "ofPayer",
       extract(epoch FROM clock_timestamp() - max(finished_at) FILTER (WHERE job_id = $2))::float8 AS "sinceJob",
       extract(epoch FROM clock_timestamp() - max(finished_at))::float8 AS "sincePayer",
       EXISTS (SELECT 1 FROM jobs WHERE payer = $1 AND finished_at IS NULL AND id <> $2
         AND state IN ('generated', 'settling')) AS "settlesAnother"
     FROM settlements
     WHERE payer = $1 AND state = 'reverted' AND gas_used IS NOT NULL
       AND finished_at > now() - make_interval(secs => $3)`,
    values: [payer, jobId, REVERTS_WINDOW_SECONDS],
  })
  const retryAfterSeconds = settlementPause({
    ofJob: { count: Number(ofJob), secondsSinceNewest: sinceJob ?? 0 },
    ofPayer: { count: Number(ofPayer), secondsSinceNewest: sincePayer ?? 0 },
    settlesAnother,
  })
  if (retryAfterSeconds > 0) throw new AcceptanceRefused({ outcome: 'settlement_retry_limit', retryAfterSeconds })
}
