import { columnsOf, listed } from '../listed.ts'
import type { Sql } from '../pool.ts'
import type { AcceptedClaim } from './claim-and-judge.ts'

const COLUMNS = {
  id: 'uuid',
  idempotency_key: 'text',
  operation: 'text',
  public_model: 'text',
  request_digest: 'text',
  effective_request: 'bytea',
  quoted_maximum: 'numeric',
  catalog_version: 'text',
  terms: 'jsonb',
  payer: 'text',
  authorization_id: 'uuid',
  staged_upload_id: 'uuid',
  request_id: 'text',
  traceparent: 'text',
  is_new_payer: 'boolean',
  client_network: 'text',
} as const
const NAMES = Object.keys(COLUMNS).join(', ')
const TYPES = Object.values(COLUMNS)
const VALUES = NAMES.replace('effective_request', "convert_from(effective_request, 'UTF8')")

/**
 * Writes the jobs of claims, and binds their keys to them. A payer's jobs are ordered by `accepted_at`, then by id, which is
 * the order in which they were judged: the time is that of the statement, which is sent under the lock of the payer, not that
 * of the transaction, which began before it may have waited for the lock.
 */
export async function insertJobs(sql: Sql, claims: readonly AcceptedClaim[]): Promise<void> {
  const rows = claims.map(valuesOf)
  const [only] = rows
  const isOne = only !== undefined && rows.length === 1
  // PostgreSQL parses one row's parameters faster than arrays, and large bytes are not copied.
  const given = isOne
    ? `(VALUES (${TYPES.map((type, index) => `$${index + 1}::${type}`).join(', ')}))`
    : listed(...TYPES)
  await sql.query({
    name: isOne ? 'insert_job' : 'insert_jobs',
    text: `WITH job AS (
       INSERT INTO jobs (${NAMES}, state, accepted_at)
       SELECT ${VALUES}, 'accepted', statement_timestamp() FROM ${given} AS new (${NAMES})
       RETURNING id, idempotency_key)
     UPDATE idempotency_keys SET job_id = job.id, described_audio = NULL FROM job
     WHERE idempotency_keys.idempotency_key = job.idempotency_key`,
    values: isOne ? only : columnsOf(rows),
  })
}

function valuesOf({ jobId, authorizationId, isNewPayer, job }: AcceptedClaim): readonly unknown[] {
  return [
    jobId,
    job.idempotencyKey,
    job.operation,
    job.publicModel,
    job.requestDigest,
    job.effectiveJson,
    job.quote.quotedMaximum.toString(),
    job.quote.catalogVersion,
    JSON.stringify(job.quote.terms),
    job.authorization.payer,
    authorizationId,
    job.stagedUpload?.id ?? null,
    job.origin.requestId,
    job.origin.traceparent,
    isNewPayer,
    job.clientNetwork,
  ]
}
