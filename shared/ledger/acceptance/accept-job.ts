import type { JobState } from '#shared/jobs/job.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { insertStagedUpload } from '../retention/staged-uploads.ts'
import { inPipelinedTransaction, type PipelinedTransaction } from '../transaction.ts'
import { isResultComplete, runAgain, settleAgain } from './accept-again.ts'
import { type Acceptance, AcceptanceRefused, type NewJob } from './acceptance.ts'
import { claimWithFreeKey, findHolder, judgePayment, readPayerExposure, type UnchargedLimits } from './claim-nonce.ts'
import { insertJobs } from './insert-jobs.ts'
import { type NewPayersLimit, OPEN_WORK_RETRY_SECONDS } from './new-payers.ts'

/**
 * Claims the payment nonce and creates the job, or reopens the key's uncharged job, in one transaction. The key's row
 * is locked first, so simultaneous duplicates wait here and all but one find the job; then the payer, so that their
 * open work can be summed. A refusal rolls everything back. After BEGIN a new job takes two round trips: what is locked and
 * read, and what is written.
 */
export async function acceptJob(pool: Pool, asked: AskedAcceptance, limits: AcceptanceLimits): Promise<Acceptance> {
  try {
    return await inLimitedTransaction(pool, limits, [asked.job.clientNetwork], (transaction, transactionLimits) =>
      acceptUnderLocks(transaction, withElapsed(asked), transactionLimits),
    )
  } catch (error) {
    if (error instanceof AcceptanceRefused) return error.acceptance
    const sqlState = sqlStateOf(error)
    if (isDataException(sqlState)) return { outcome: 'unstorable', sqlState }
    // A process that holds the lock of new payers hangs; PostgreSQL ends its transaction.
    if (sqlState === LOCK_NOT_AVAILABLE)
      return { outcome: 'new_payer_limit', limit: 'all', retryAfterSeconds: OPEN_WORK_RETRY_SECONDS }
    throw error
  }
}

const LOCK_NOT_AVAILABLE = '55P03'

function sqlStateOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/**
 * Returns whether PostgreSQL rejected a value (class 22). The values are the caller's, and the transaction has written
 * nothing; with them it would fail for ever.
 */
function isDataException(sqlState: string): boolean {
  return /^22[0-9A-Z]{3}$/.test(sqlState)
}

/** What limits the work that payers may cause without a charge. */
export interface AcceptanceLimits {
  readonly budget: UnchargedBudget
  readonly newPayers: NewPayersLimit
}

/** Runs a transaction in which payments from these networks are accepted, with limits that count what it reserves. */
export async function inLimitedTransaction<T>(
  pool: Pool,
  { budget, newPayers }: AcceptanceLimits,
  networks: readonly string[],
  work: (transaction: PipelinedTransaction, limits: UnchargedLimits) => Promise<T>,
): Promise<T> {
  const limits = { budget, newPayers: newPayers.forTransaction(networks) }
  return await inPipelinedTransaction(pool, (transaction) => work(transaction, limits))
}

/** A payment, and when its acceptance was asked for, on the process's monotonic clock. */
export interface AskedAcceptance {
  readonly job: NewJob
  readonly askedAtMs: number
}

/** Adds the wait for others and for a connection: PostgreSQL's `now()` is the beginning of the transaction. */
export function withElapsed({ job, askedAtMs }: AskedAcceptance): NewJob {
  const { exposure } = job
  return { ...job, exposure: { ...exposure, verifiedMsAgo: exposure.verifiedMsAgo + performance.now() - askedAtMs } }
}

async function acceptUnderLocks(sql: PipelinedTransaction, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const claim = { jobId: newId(), authorizationId: newId(), job }
  // In one round trip. The exposure is read after the locks, with a snapshot of its own; without them it is not used.
  const [{ key, isClaimed }, exposure] = await Promise.all([
    claimWithFreeKey(sql, claim),
    readPayerExposure(sql, job, limits),
  ])
  if (!key || key.request_digest !== job.requestDigest) return { outcome: 'other_request' }
  if (isClaimed) {
    const isNewPayer = await judgePayment(sql, claim.jobId, job, exposure, limits)
    await insertStagedUpload(sql, claim.jobId, job.stagedUpload)
    // Without the job the claim and the upload, which refer to it, could not be committed.
    await sql.commitBehind(insertJobs(sql, [{ ...claim, isNewPayer }]))
    return { outcome: 'accepted', jobId: claim.jobId }
  }
  if (key.job_id === null) return await findHolder(sql, claim.jobId, job.authorization)
  const holder = await readHolder(sql, key.job_id)
  if (holder.payer !== job.authorization.payer) return { outcome: 'other_request' }
  if (holder.state === 'settlement_failed' && (await isResultComplete(sql, key.job_id)))
    return await settleAgain(sql, key.job_id, job)
  if (statesBefore('accepted').includes(holder.state)) return await runAgain(sql, key.job_id, job, limits)
  return { outcome: 'exists', jobId: key.job_id }
}

/**
 * Reads in a separate statement, after the lock: joined to the locking one it would see the snapshot from before the
 * wait.
 */
async function readHolder(sql: Sql, jobId: string) {
  const holder = await readFirst<{ readonly payer: string; readonly state: JobState }>(sql, {
    name: 'read_job_holder',
    text: 'SELECT payer, state FROM jobs WHERE id = $1',
    values: [jobId],
  })
  if (!holder) throw new Error(`the key is bound to job ${jobId}, which does not exist`)
  return holder
}
