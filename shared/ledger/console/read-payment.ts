import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { PaymentRecord } from '#shared/operators/payment-record.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'
import { CALL, type CallRow, callSummary } from './call-row.ts'
import {
  readAttempts,
  readAuthorizations,
  readJobResolutions,
  readMedia,
  readReceipt,
  readUncharged,
  readUnknownSettlements,
  readUpload,
} from './payment-parts.ts'
import { readSettlements } from './read-settlements.ts'

type JobRow = CallRow & {
  readonly idempotency_key: string
  readonly is_key_released: boolean
  readonly challenge_expires_at: Date | null
  readonly catalog_version: string
  readonly usage: Record<string, JsonValue> | null
  readonly failure_reason: string | null
  readonly is_new_payer: boolean
  readonly lease_expires_at: Date | null
  readonly deferrals: number
  readonly deferred_since: Date | null
  readonly run_after: Date
  readonly result: PaymentRecord['result']
  readonly result_expired_at: Date | null
  readonly staged_upload_id: string | null
}

/** Reads a job with all rows about its money from one snapshot, so that they agree with each other. */
export async function readPayment(pool: Pool, jobId: string): Promise<PaymentRecord | null> {
  return await inTransaction(pool, async (sql) => {
    await sql.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
    const job = await readJob(sql, jobId)
    if (!job) return null
    return {
      ...callSummary(job),
      idempotencyKey: job.idempotency_key,
      isKeyReleased: job.is_key_released,
      challengeExpiresAt: job.challenge_expires_at,
      catalogVersion: job.catalog_version,
      usage: job.usage,
      failureReason: job.failure_reason,
      isNewPayer: job.is_new_payer,
      leasedUntil: job.lease_expires_at,
      deferrals: job.deferrals,
      deferredSince: job.deferred_since,
      dueAt: job.run_after,
      result: job.result,
      resultExpiredAt: job.result_expired_at,
      authorizations: await readAuthorizations(sql, jobId),
      attempts: await readAttempts(sql, jobId),
      settlements: await readSettlements(sql, jobId),
      receipt: await readReceipt(sql, jobId),
      media: await readMedia(sql, jobId),
      upload: await readUpload(sql, job.staged_upload_id),
      uncharged: await readUncharged(sql, jobId),
      unknownSettlements: await readUnknownSettlements(sql, 'job_id', jobId),
      resolutions: await readJobResolutions(sql, jobId),
    }
  })
}

async function readJob(sql: Sql, jobId: string): Promise<JobRow | undefined> {
  const { rows } = await sql.query<JobRow>({
    name: 'read_console_job',
    text: `SELECT ${CALL}, coalesce(jobs.idempotency_key, released_idempotency_key) AS idempotency_key,
       released_idempotency_key IS NOT NULL AS is_key_released, idempotency_keys.expires_at AS challenge_expires_at,
       jobs.catalog_version, usage, failure_reason, is_new_payer, lease_expires_at, deferrals, deferred_since, run_after,
       CASE WHEN result_expired_at IS NOT NULL THEN 'expired' WHEN result_body IS NULL THEN 'none' ELSE 'stored' END
         AS result, result_expired_at, staged_upload_id
     FROM jobs LEFT JOIN idempotency_keys ON idempotency_keys.idempotency_key = jobs.idempotency_key
     WHERE jobs.id = $1`,
    values: [jobId],
  })
  return rows[0]
}
