import { randomUUID } from 'node:crypto'
import type { Acceptance, NewJob } from '#shared/jobs/admission-store.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { Pool, Sql } from '../pool.ts'
import { insertStagedUpload } from '../retention/staged-uploads.ts'
import { inTransaction } from '../transaction.ts'
import { AcceptanceRefused, claimNonce, type UnchargedLimits } from './claim-nonce.ts'
import { runAgain } from './run-again.ts'
import { isResultComplete, settleAgain } from './settle-again.ts'

interface KeyRow {
  request_digest: string
  job_id: string | null
}

interface HolderRow {
  payer: string
  state: JobState
}

/**
 * Claims the payment nonce and creates the job, or reopens the key's uncharged job, in one transaction. The key's row
 * is locked first, so simultaneous duplicates wait here and all but one find the job; then the payer, so that their
 * open work can be summed. A refusal rolls everything back.
 */
export async function acceptJob(pool: Pool, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const calledAt = performance.now()
  try {
    return await inTransaction(pool, (sql) =>
      acceptUnderLocks(sql, withElapsed(performance.now() - calledAt, job), limits),
    )
  } catch (error) {
    if (error instanceof AcceptanceRefused) return error.acceptance
    throw error
  }
}

/** Adds the wait for a connection: PostgreSQL's `now()` is the beginning of the transaction. */
function withElapsed(waitedMs: number, job: NewJob): NewJob {
  const { exposure } = job
  return { ...job, exposure: { ...exposure, verifiedMsAgo: exposure.verifiedMsAgo + waitedMs } }
}

async function acceptUnderLocks(sql: Sql, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const key = await lockKey(sql, job.idempotencyKey)
  if (!key || key.request_digest !== job.requestDigest) return { outcome: 'other_request' }
  if (key.job_id === null) return await insertJob(sql, job, limits)
  const holder = await readHolder(sql, key.job_id)
  if (holder.payer !== job.authorization.payer) return { outcome: 'other_request' }
  if (holder.state === 'settlement_failed' && (await isResultComplete(sql, key.job_id)))
    return await settleAgain(sql, key.job_id, job)
  if (statesBefore('accepted').includes(holder.state)) return await runAgain(sql, key.job_id, job, limits)
  return { outcome: 'exists', jobId: key.job_id }
}

async function lockKey(sql: Sql, idempotencyKey: string): Promise<KeyRow | undefined> {
  const { rows } = await sql.query<KeyRow>({
    name: 'lock_idempotency_key',
    text: 'SELECT request_digest, job_id FROM idempotency_keys WHERE idempotency_key = $1 FOR UPDATE',
    values: [idempotencyKey],
  })
  return rows[0]
}

/**
 * Reads in a separate statement, after the lock: joined to the locking one it would see the snapshot from before the
 * wait.
 */
async function readHolder(sql: Sql, jobId: string): Promise<HolderRow> {
  const { rows } = await sql.query<HolderRow>({
    name: 'read_job_holder',
    text: 'SELECT payer, state FROM jobs WHERE id = $1',
    values: [jobId],
  })
  const [row] = rows
  if (!row) throw new Error(`the key is bound to job ${jobId}, which does not exist`)
  return row
}

async function insertJob(sql: Sql, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const jobId = randomUUID()
  const claim = await claimNonce(sql, jobId, job, limits)
  if (claim.outcome !== 'claimed') return claim
  await sql.query({
    name: 'insert_job',
    text: `WITH job AS (
       INSERT INTO jobs (id, idempotency_key, operation, public_model, request_digest, effective_request, quoted_maximum,
         catalog_version, terms, payer, authorization_id, staged_upload_id, state, request_id, traceparent, is_new_payer)
       VALUES ($1, $2, $3, $4, $5, convert_from($6, 'UTF8'), $7, $8, $9, $10, $11, $12, 'accepted', $13, $14, $15)
       RETURNING id, idempotency_key)
     UPDATE idempotency_keys SET job_id = job.id, claimed_audio = NULL FROM job WHERE idempotency_keys.idempotency_key = job.idempotency_key`,
    values: [
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
      claim.authorizationId,
      job.stagedUpload?.id ?? null,
      job.origin.requestId,
      job.origin.traceparent,
      claim.isNewPayer,
    ],
  })
  await insertStagedUpload(sql, jobId, job.stagedUpload)
  return { outcome: 'accepted', jobId }
}
