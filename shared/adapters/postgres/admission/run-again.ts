import type { Acceptance, NewJob } from '#shared/jobs/admission-store.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import { NOT_DEFERRED } from '../move-job.ts'
import type { Sql } from '../pool.ts'
import { insertStagedUpload } from '../retention/staged-uploads.ts'
import { AcceptanceRefused } from './acceptance-refused.ts'
import { claimNonce, type UnchargedLimits } from './claim-nonce.ts'

/**
 * Moves failed or settlement_failed → accepted: nothing was charged; the new authorization pays for a new attempt at
 * the new quote. A withheld result that is replaced was work without a charge.
 */
export async function runAgain(sql: Sql, jobId: string, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const claim = await claimNonce(sql, jobId, job, limits)
  if (claim.outcome !== 'claimed') return claim
  await insertStagedUpload(sql, jobId, job.stagedUpload)
  const { rowCount } = await sql.query({
    name: 'run_again',
    text: `WITH replaced AS (
         INSERT INTO uncharged_work (job_id, authorization_id, network, payer, kind, amount, is_new_payer, client_network)
         SELECT jobs.id, authorizations.id, network, jobs.payer, 'replaced_result', charge_amount, is_new_payer,
           client_network
         FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
         WHERE jobs.id = $1 AND state = 'settlement_failed')
       UPDATE jobs SET state = 'accepted', ${NOT_DEFERRED}, authorization_id = $2, staged_upload_id = $3, quoted_maximum = $4,
       catalog_version = $5, terms = $6, effective_request = convert_from($8, 'UTF8'),
       request_id = $9, traceparent = $10,
       failure_code = NULL, failure_reason = NULL, finished_at = NULL, is_owed = false,
       usage = NULL, charge_amount = NULL, result_body = NULL, result_digest = NULL, result_expired_at = NULL,
       fence = fence + 1, lease_expires_at = NULL, orphaned_at = NULL, run_after = now(), enqueued_at = NULL,
       accepted_at = now(), is_new_payer = $11, client_network = $12
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
