import { randomUUID } from 'node:crypto'
import type { JobState } from '#shared/jobs/job.ts'
import type { Acceptance, NewJob } from '#shared/jobs/job-store.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import { STAGED_UPLOAD_LIFETIME_SECONDS } from '#shared/media/staged-upload.ts'
import { storedAuthorization } from '#shared/payment/authorization.ts'
import type { Pool, Sql } from '../pool.ts'
import { inTransaction } from '../transaction.ts'

interface KeyRow {
  request_digest: string
  job_id: string | null
}

interface HolderRow {
  payer: string
  state: JobState
}

/**
 * Claims the payment nonce and creates the job, or reopens the uncharged job behind the key, in one transaction. The key's
 * row is locked first, so simultaneous duplicates queue up here and all but one find the job already there.
 */
export async function acceptJob(pool: Pool, job: NewJob): Promise<Acceptance> {
  return await inTransaction(pool, async (sql) => {
    const key = await lockKey(sql, job.idempotencyKey)
    if (!key || key.request_digest !== job.requestDigest) return { outcome: 'other_request' }
    if (key.job_id === null) return await insertJob(sql, job)
    const holder = await readHolder(sql, key.job_id)
    if (holder.payer !== job.authorization.payer) return { outcome: 'other_request' }
    if (holder.state === 'settlement_failed' && (await isResultWhole(sql, key.job_id)))
      return await settleAgain(sql, key.job_id, job)
    if (statesBefore('accepted').includes(holder.state)) return await runAgain(sql, key.job_id, job)
    return { outcome: 'exists', jobId: key.job_id }
  })
}

async function lockKey(sql: Sql, idempotencyKey: string): Promise<KeyRow | undefined> {
  const { rows } = await sql.query<KeyRow>(
    'SELECT request_digest, job_id FROM idempotency_keys WHERE idempotency_key = $1 FOR UPDATE',
    [idempotencyKey],
  )
  return rows[0]
}

/** A statement of its own, after the lock: joined to the locking one it would still see the time before the wait. */
async function readHolder(sql: Sql, jobId: string): Promise<HolderRow> {
  const { rows } = await sql.query<HolderRow>('SELECT payer, state FROM jobs WHERE id = $1', [jobId])
  const [row] = rows
  if (!row) throw new Error(`the key is bound to job ${jobId}, which does not exist`)
  return row
}

async function insertJob(sql: Sql, job: NewJob): Promise<Acceptance> {
  const jobId = randomUUID()
  const claim = await claimNonce(sql, jobId, job)
  if (claim.outcome !== 'claimed') return claim
  await sql.query(
    `INSERT INTO jobs (id, idempotency_key, operation, public_model, request_digest, effective_request, quoted_maximum,
       catalog_version, terms, payer, authorization_id, staged_upload_id, state)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'accepted')`,
    [
      jobId,
      job.idempotencyKey,
      job.operation,
      job.publicModel,
      job.requestDigest,
      JSON.stringify(job.effectiveRequest),
      job.quote.quotedMaximum.toString(),
      job.quote.catalogVersion,
      JSON.stringify(job.quote.terms),
      job.authorization.payer,
      claim.authorizationId,
      job.stagedUpload?.id ?? null,
    ],
  )
  await insertStagedUpload(sql, jobId, job)
  await sql.query('UPDATE idempotency_keys SET job_id = $2 WHERE idempotency_key = $1', [job.idempotencyKey, jobId])
  return { outcome: 'accepted', jobId }
}

/** Whoever pays for a stored result should have at least this long to fetch its media. */
const SHORTEST_MEDIA_LIFE_SECONDS = 3600

async function isResultWhole(sql: Sql, jobId: string): Promise<boolean> {
  const { rows } = await sql.query(
    'SELECT 1 FROM media WHERE job_id = $1 AND expires_at <= now() + make_interval(secs => $2)',
    [jobId, SHORTEST_MEDIA_LIFE_SECONDS],
  )
  return rows.length === 0
}

/** failed or settlement_failed → accepted: nothing was charged, and the fresh authorization pays for a fresh attempt at today's quote. */
async function runAgain(sql: Sql, jobId: string, job: NewJob): Promise<Acceptance> {
  const claim = await claimNonce(sql, jobId, job)
  if (claim.outcome !== 'claimed') return claim
  await insertStagedUpload(sql, jobId, job)
  await sql.query(
    `UPDATE jobs SET state = 'accepted', authorization_id = $2, staged_upload_id = $3, quoted_maximum = $4,
       catalog_version = $5, terms = $6, failure_code = NULL, failure_reason = NULL, finished_at = NULL,
       usage = NULL, charge_amount = NULL, result_body = NULL, result_digest = NULL,
       lease_expires_at = NULL, run_after = now(), enqueued_at = NULL, accepted_at = now()
     WHERE id = $1 AND state = ANY($7)`,
    [
      jobId,
      claim.authorizationId,
      job.stagedUpload?.id ?? null,
      job.quote.quotedMaximum.toString(),
      job.quote.catalogVersion,
      JSON.stringify(job.quote.terms),
      statesBefore('accepted'),
    ],
  )
  return { outcome: 'accepted', jobId }
}

/** settlement_failed → generated: the result is stored, so the fresh authorization pays for it without another call. */
async function settleAgain(sql: Sql, jobId: string, job: NewJob): Promise<Acceptance> {
  const claim = await claimNonce(sql, jobId, job)
  if (claim.outcome !== 'claimed') return claim
  await sql.query(
    `UPDATE jobs SET state = 'generated', authorization_id = $2, charge_amount = LEAST(charge_amount, $3),
       failure_code = NULL, failure_reason = NULL, finished_at = NULL,
       lease_expires_at = NULL, run_after = now(), enqueued_at = NULL
     WHERE id = $1 AND state = 'settlement_failed'`,
    [jobId, claim.authorizationId, job.authorization.authorizedMaximum.toString()],
  )
  return { outcome: 'settles_again', jobId }
}

type NonceClaim =
  | Exclude<Acceptance, { outcome: 'accepted' | 'settles_again' }>
  | { outcome: 'claimed'; authorizationId: string }

/**
 * Inserted before anything else, so that a refused claim leaves the transaction without a change. A deadline past the year
 * 9999 is stored as that: PostgreSQL has no later time, and the exact one stays in `signed`.
 */
async function claimNonce(sql: Sql, jobId: string, { authorization }: NewJob): Promise<NonceClaim> {
  const authorizationId = randomUUID()
  const inserted = await sql.query(
    `INSERT INTO authorizations
       (id, job_id, network, payer, nonce, authorized_maximum, deadline, signed, permit_nonce)
     VALUES ($1, $2, $3, $4, $5, $6, to_timestamp(LEAST($7::numeric, 253402300799)::double precision), $8, $9) ON CONFLICT DO NOTHING`,
    [
      authorizationId,
      jobId,
      authorization.network,
      authorization.payer,
      authorization.nonce.toString(),
      authorization.authorizedMaximum.toString(),
      authorization.deadline.toString(),
      storedAuthorization(authorization),
      authorization.gasSponsoring?.nonce.toString() ?? null,
    ],
  )
  if (inserted.rowCount === 1) return { outcome: 'claimed', authorizationId }
  const { rows } = await sql.query<{ job_id: string }>(
    'SELECT job_id FROM authorizations WHERE network = $1 AND payer = $2 AND nonce = $3',
    [authorization.network, authorization.payer, authorization.nonce.toString()],
  )
  const [holder] = rows
  if (!holder) return { outcome: 'permit_already_used' }
  return holder.job_id === jobId ? { outcome: 'exists', jobId } : { outcome: 'authorization_already_used' }
}

async function insertStagedUpload(sql: Sql, jobId: string, { stagedUpload }: NewJob): Promise<void> {
  if (!stagedUpload) return
  await sql.query(
    `INSERT INTO staged_uploads (id, job_id, object_key, data_key, expires_at)
     VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))`,
    [stagedUpload.id, jobId, stagedUpload.objectKey, stagedUpload.dataKey, STAGED_UPLOAD_LIFETIME_SECONDS],
  )
}
