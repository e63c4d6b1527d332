import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { JobFailure, LeasedJob, NewResult, Written } from '#shared/jobs/job.ts'
import { parseEffectiveRequest } from '#shared/jobs/parse-effective-request.ts'
import { type UnchargedWork, unchargedWorkOf } from '#shared/jobs/uncharged-work.ts'
import type { Media } from '#shared/media/media.ts'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure, PayerFunds } from '#shared/payment/exposure.ts'
import type { ExhaustedBudget, UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { bindTo } from '#shared/runtime/bind-to.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { findExhaustedBudget } from '../acceptance/find-exhausted-budget.ts'
import { type ExposureQuestion, type PayerExposure, readExposures } from '../acceptance/read-exposure.ts'
import { insertUnchargedWork } from '../insert-uncharged-work.ts'
import { moveJob, moveJobs, type SharedTransition, shareMove } from '../move-job.ts'
import type { Pool, Sql } from '../pool.ts'
import { eraseUpload, openStagedUpload } from '../retention/staged-uploads.ts'
import { shareStatement } from '../share-statements.ts'
import { withConnection } from '../transaction.ts'
import { createJobLeaser, deferJob, handOverJob, releaseJob, renewLeases, wakeJob } from './leases.ts'
import { takeDueJobs } from './take-due-jobs.ts'

const ANY_CHARGE = atomicAmount(1n)

/** The work with a prior claim on a payer's funds. */
interface ExposureAhead extends Exposure {
  /** Whether a result is withheld until they pay for it. */
  readonly owes: boolean
  /** Whether a charge of theirs was settled, at any time. */
  readonly hasPaid: boolean
  /** Their uncharged work, once it has reached the budget. */
  readonly exhausted: ExhaustedBudget | null
}

/** A worker's access to jobs, from the lease to the stored result. Every write to a leased job is fenced. */
export type ExecutionStore = ReturnType<typeof createExecutionStore>

/** Creates the workers' store of jobs over one pool. */
export function createExecutionStore(pool: Pool, budget: UnchargedBudget) {
  return {
    leaseJob: createJobLeaser(pool),
    ...bindTo(pool, { renewLeases, deferJob, releaseJob, wakeJob, handOverJob, takeDueJobs }),
    ...bindTo(pool, { readEffectiveRequest, openStagedUpload, failJob }),
    readExposureAhead: createExposureAheadReader(pool, budget),
    startAttempt: createAttemptStarter(pool),
    sealResult: createResultSealer(pool),
  }
}

/**
 * Returns the effective request of a leased job, which the lease leaves out when it is long: a worker first reserves the
 * memory for it. `null` when no provider needs it any more.
 */
async function readEffectiveRequest(sql: Sql, jobId: string): Promise<JsonValue | null> {
  const { rows } = await sql.query<{ effective_request: string | null }>({
    name: 'read_effective_request',
    text: 'SELECT effective_request FROM jobs WHERE id = $1',
    values: [jobId],
  })
  const text = rows[0]?.effective_request
  return text === undefined || text === null ? null : parseEffectiveRequest(text)
}

/** A deployment as it is called: it may be renamed, or get another model. */
interface CalledDeployment {
  readonly name: string
  readonly vendor: string
  readonly upstreamModel: string
}

interface Attempt {
  readonly id: string
  readonly job: LeasedJob
  readonly deployment: CalledDeployment
  /** The attempt before it, which failed definitely. */
  readonly failed: { readonly attemptId: string; readonly reason: string } | null
}

/**
 * Creates a function that moves accepted → generating, or generating → generating with the next deployment, those jobs in
 * one statement that are ready at the same time. The attempt's row is committed before the provider is called, so a
 * crash cannot hide a call. `failed` ends the attempt before it.
 */
function createAttemptStarter(sql: Sql) {
  const start = shareMove<Attempt>(sql, START_ATTEMPTS)
  return async (job: LeasedJob, deployment: CalledDeployment, failed: Attempt['failed']) => {
    const attempt = { id: newId(), job, deployment, failed }
    return { written: await start(attempt), attemptId: attempt.id }
  }
}

const START_ATTEMPTS: SharedTransition<Attempt> = {
  to: 'generating',
  name: 'start_attempts',
  columns: [
    { name: 'attempt_id', type: 'uuid', of: ({ id }) => id },
    { name: 'authorization_id', type: 'uuid', of: ({ job }) => job.authorizationId },
    { name: 'deployment', type: 'text', of: ({ deployment }) => deployment.name },
    { name: 'vendor', type: 'text', of: ({ deployment }) => deployment.vendor },
    { name: 'upstream_model', type: 'text', of: ({ deployment }) => deployment.upstreamModel },
    { name: 'failed_id', type: 'uuid', of: ({ failed }) => failed?.attemptId ?? null },
    { name: 'reason', type: 'text', of: ({ failed }) => failed?.reason ?? null },
  ],
  together: [
    `ended AS (
       UPDATE upstream_attempts SET state = 'failed_definite', reason = moved.reason, finished_at = now()
       FROM moved WHERE upstream_attempts.id = moved.failed_id RETURNING upstream_attempts.id)`,
    // An authorization may have only one attempt that has not failed, so the failed one must end first.
    `started AS (
       INSERT INTO upstream_attempts (id, job_id, authorization_id, deployment, vendor, upstream_model, state)
       SELECT attempt_id, id, authorization_id, deployment, vendor, upstream_model, 'open' FROM moved
       WHERE failed_id IS NULL OR EXISTS (SELECT FROM ended WHERE ended.id = failed_id))`,
  ],
}

interface Sealing {
  readonly job: LeasedJob
  readonly attemptId: string
  readonly sealed: NewResult
  /** The object that the result refers to, which is stored already. */
  readonly media: Media | null
  /** What the vendor bills for the attempt, at the prices of the moment; `null` when they are not known. */
  readonly vendorCost: AtomicAmount | null
}

/** Results of one statement are in memory twice, so a longer one has a statement of its own. */
const LONGEST_SHARED_CHARACTERS = 256 * 1024

/**
 * Creates a function that moves generating → generated: fixes the result and its charge; the same commit erases the
 * prompt and the staged audio's data key. Jobs whose results arrive at the same time are moved by one statement.
 */
function createResultSealer(sql: Sql) {
  const sealShared = shareMove<Sealing>(sql, SEAL_RESULTS)
  return async (
    job: LeasedJob,
    attemptId: string,
    sealed: NewResult,
    media: Media | null,
    vendorCost: AtomicAmount | null = null,
  ): Promise<Written> => {
    const sealing = { job, attemptId, sealed, media, vendorCost }
    if (sealed.resultBody.length <= LONGEST_SHARED_CHARACTERS) return await sealShared(sealing)
    const moved = await moveJobs(sql, [sealing], SEAL_RESULTS, 'wait')
    return moved.length === 1 ? 'written' : 'stale'
  }
}

const SEAL_RESULTS: SharedTransition<Sealing> = {
  to: 'generated',
  name: 'seal_results',
  columns: [
    { name: 'attempt_id', type: 'uuid', of: ({ attemptId }) => attemptId },
    { name: 'usage', type: 'jsonb', of: ({ sealed }) => JSON.stringify(sealed.usage) },
    { name: 'charge_amount', type: 'numeric', of: ({ sealed }) => sealed.chargeAmount.toString() },
    { name: 'result_body', type: 'text', of: ({ sealed }) => sealed.resultBody },
    { name: 'result_digest', type: 'text', of: ({ sealed }) => sealed.resultDigest },
    { name: 'upload_id', type: 'uuid', of: ({ job }) => job.stagedUploadId },
    { name: 'token_sha256', type: 'text', of: ({ media }) => media?.tokenSha256 ?? null },
    { name: 'object_key', type: 'text', of: ({ media }) => media?.objectKey ?? null },
    { name: 'content_type', type: 'text', of: ({ media }) => media?.contentType ?? null },
    { name: 'sha256', type: 'text', of: ({ media }) => media?.sha256 ?? null },
    { name: 'bytes', type: 'bigint', of: ({ media }) => media?.bytes ?? null },
    { name: 'expires_at', type: 'timestamptz', of: ({ media }) => media?.expiresAt ?? null },
    { name: 'vendor_cost', type: 'numeric', of: ({ vendorCost }) => vendorCost?.toString() ?? null },
  ],
  set: [
    'usage = free.usage',
    'charge_amount = free.charge_amount',
    'result_body = free.result_body',
    'result_digest = free.result_digest',
    'effective_request = NULL',
  ],
  together: [
    `succeeded AS (
       UPDATE upstream_attempts SET state = 'succeeded', finished_at = now(), usage = moved.usage,
         vendor_cost = moved.vendor_cost
       FROM moved WHERE upstream_attempts.id = moved.attempt_id)`,
    `erased AS (
       UPDATE staged_uploads SET data_key = NULL, erased_at = now()
       FROM moved WHERE staged_uploads.id = moved.upload_id AND data_key IS NOT NULL)`,
    `media AS (
       INSERT INTO media (id, job_id, token_sha256, object_key, content_type, sha256, bytes, expires_at)
       SELECT gen_random_uuid(), id, token_sha256, object_key, content_type, sha256, bytes, expires_at
       FROM moved WHERE object_key IS NOT NULL)`,
  ],
}

/**
 * Moves accepted or generating → failed, uncharged, and writes its uncharged work. An open attempt ends in the state
 * `attempt`. After an ambiguous failure the provider may still be working on the audio, so the staged upload stays
 * until it expires.
 */
function failJob(sql: Sql, job: LeasedJob, failure: JobFailure): Promise<Written> {
  const erasesUpload = failure.attempt !== 'failed_ambiguous' && job.stagedUploadId !== null
  const work = unchargedWorkOf(job, failure)
  return moveJob(sql, job, 'failed', (parameter) => ({
    name: statementName(erasesUpload, work),
    set: [
      `failure_code = ${parameter(failure.code)}`,
      `failure_reason = ${parameter(failure.reason)}`,
      'finished_at = now()',
      'lease_expires_at = NULL',
      'effective_request = NULL',
      'client_network = NULL',
    ],
    together: [
      // An open attempt belongs to the current authorization, which the index covers.
      `ended AS (
         UPDATE upstream_attempts SET state = ${parameter(failure.attempt === 'none' ? 'failed_ambiguous' : failure.attempt)},
           reason = ${parameter(failure.reason)}, finished_at = now(),
           usage = ${parameter(failure.measured?.usage ?? null)}, vendor_cost = ${parameter(failure.measured?.vendorCost?.toString() ?? null)}
         FROM moved WHERE authorization_id = ${parameter(job.authorizationId)} AND state = 'open' RETURNING deployment)`,
      `released AS (
         UPDATE authorizations SET permit_released_at = now()
         FROM moved WHERE authorizations.id = ${parameter(job.authorizationId)})`,
      ...(erasesUpload ? eraseUpload(job.stagedUploadId, parameter) : []),
      ...(work ? [insertUnchargedWork(job, work, parameter, '(SELECT deployment FROM ended)')] : []),
    ],
  }))
}

function statementName(erasesUpload: boolean, work: UnchargedWork | null): string {
  return ['fail_job', ...(erasesUpload ? ['erasing_upload'] : []), ...(work ? ['with_work'] : [])].join('_')
}

/**
 * Creates a function that reads the work of a job's payer with a prior claim on their funds (accepted before this job, or
 * already being worked on), with the charges that settled since `funds` were read or, without a reading, since the job was
 * accepted: more than the verification may have missed, and by the database's clock alone. Readings of jobs that are checked at
 * the same time are one statement, and so one snapshot, taken after each of them was asked for.
 */
function createExposureAheadReader(pool: Pool, budget: UnchargedBudget) {
  const read = shareStatement<ExposureQuestion, PayerExposure>({
    keyOf: ({ before }) => before?.id ?? '',
    run: async (asked) => {
      const exposures = await withConnection(pool, (sql) => readExposures(sql, asked))
      return new Map([...exposures].map(([{ before }, exposure]) => [before?.id ?? '', exposure]))
    },
  })
  const { windowSeconds } = budget
  return async (job: LeasedJob, funds: PayerFunds | null): Promise<ExposureAhead> => {
    const { payer } = job.authorization
    const question = { payer, funds, verifiedMsAgo: null, before: job, windowSeconds, paidUpTo: ANY_CHARGE }
    const { uncharged, lost: _, paid, ...exposure } = await read(question)
    return {
      ...exposure,
      hasPaid: paid !== null && paid >= ANY_CHARGE,
      exhausted: await findExhaustedBudget(pool, payer, uncharged, budget),
    }
  }
}
