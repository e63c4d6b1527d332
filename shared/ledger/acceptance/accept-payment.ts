import pLimit, { type LimitFunction } from 'p-limit'
import type { JobState } from '#shared/jobs/job.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Pool, Sql } from '../pool.ts'
import { readFirst } from '../read-rows.ts'
import { insertStagedUpload } from '../retention/staged-uploads.ts'
import { type LockedRows, shareStatement } from '../share-statements.ts'
import { inPipelinedTransaction, type PipelinedTransaction } from '../transaction.ts'
import { isResultComplete, runAgain, settleAgain } from './accept-again.ts'
import { type Acceptance, AcceptanceRefused, type NewJob } from './acceptance.ts'
import { claimAndJudge, claimOne, payerOf } from './claim-and-judge.ts'
import { type Claim, findNonceHolder } from './claim-nonces.ts'
import { insertJobs } from './insert-jobs.ts'
import type { UnchargedLimits } from './judge-payments.ts'
import { type NewPayersLimit, OPEN_WORK_RETRY_SECONDS } from './new-payers.ts'

/** Longer requests are written alone: a shared statement has its own copy of each. */
const LONGEST_SHARED_BYTES = 64 * 1024

/** A payment that waits for the lock of its payer occupies a connection: others must find one. */
const MOST_ALONE_OF_PAYER = 3

/** What limits the work that payers may cause without a charge. */
export interface AcceptanceLimits {
  readonly budget: UnchargedBudget
  readonly newPayers: NewPayersLimit
}

/** A payment, and when its acceptance was asked for, on the process's monotonic clock. */
interface AskedAcceptance {
  readonly job: NewJob
  readonly askedAtMs: number
}

/**
 * Creates the acceptance of payments: authorization and job are written in one transaction, and the job's row is the
 * outbox. Those that wait at the same time, for free keys, share one transaction, which waits for no lock; each is
 * judged under the locks of its key and its payer, those of one payer one after the other. One that is left out, or
 * has to be refused, is accepted or refused in a transaction of its own.
 */
export function createPaymentAcceptor(pool: Pool, limits: AcceptanceLimits) {
  const limitPayer = limitEach(MOST_ALONE_OF_PAYER)
  const alone = (asked: AskedAcceptance) => limitPayer(payerOf(asked.job), () => acceptAlone(pool, asked, limits))
  const shared = shareStatement<AskedAcceptance, Acceptance>({
    keyOf: ({ job }) => job.idempotencyKey,
    lockOf: ({ job }) => payerOf(job),
    run: async (asked, lockedRows) => {
      const [first] = asked
      if (!first) return new Map()
      if (asked.length === 1) return new Map([[first.job.idempotencyKey, await alone(first)]])
      if (lockedRows === 'skip') return await acceptTogether(pool, asked, lockedRows, limits)
      return await limitPayer(payerOf(first.job), () => acceptTogether(pool, asked, lockedRows, limits))
    },
  })
  return (job: NewJob): Promise<Acceptance> => {
    const asked = { job, askedAtMs: performance.now() }
    const isShort = job.stagedUpload === null && job.effectiveJson.byteLength <= LONGEST_SHARED_BYTES
    return isShort ? shared(asked) : alone(asked)
  }
}

/** Returns a function that runs at most `most` works of one name at the same time, the others in their order. */
function limitEach(most: number): <T>(name: string, work: () => Promise<T>) => Promise<T> {
  const slots = new Map<string, { readonly limit: LimitFunction; users: number }>()
  return async (name, work) => {
    const slot = slots.get(name) ?? { limit: pLimit(most), users: 0 }
    slots.set(name, slot)
    slot.users += 1
    try {
      return await slot.limit(work)
    } finally {
      slot.users -= 1
      if (slot.users === 0) slots.delete(name)
    }
  }
}

/** Thrown to roll back claims of which some are refused. */
class SomeRefused extends Error {
  readonly accepted: ReadonlySet<string>

  constructor(accepted: readonly Claim[]) {
    super('some payments have to be refused')
    this.accepted = new Set(accepted.map(({ job }) => job.idempotencyKey))
  }
}

/**
 * Accepts payments in one transaction, which waits for nobody. Leaves out what another transaction has locked, and of each
 * payer the first one that has to be refused and those behind it: the transaction is then repeated without them, since a
 * claim is never deleted.
 */
async function acceptTogether(
  pool: Pool,
  asked: readonly AskedAcceptance[],
  lockedRows: LockedRows,
  limits: AcceptanceLimits,
): Promise<ReadonlyMap<string, Acceptance>> {
  if (asked.length === 0) return new Map()
  try {
    return await inLimitedTransaction(pool, limits, asked, async (transaction, transactionLimits) => {
      // Jobs of one time are ordered by their ids, and ids of one millisecond are in no order.
      const jobIds = asked.map(() => newId()).toSorted()
      const claims = asked.map((one, index) => newClaim(withElapsed(one), jobIds[index]))
      const { accepted, refusals } = await claimAndJudge(transaction, claims, lockedRows, transactionLimits)
      if (refusals.length > 0) throw new SomeRefused(accepted)
      if (accepted.length === 0) return new Map()
      // Without its job no claim can be committed.
      await transaction.commitBehind(insertJobs(transaction, accepted))
      return new Map(accepted.map(({ job, jobId }) => [job.idempotencyKey, { outcome: 'accepted', jobId }]))
    })
  } catch (error) {
    if (!(error instanceof SomeRefused)) throw error
    const { accepted } = error
    return await acceptTogether(
      pool,
      asked.filter(({ job }) => accepted.has(job.idempotencyKey)),
      lockedRows,
      limits,
    )
  }
}

/**
 * Claims the payment nonce and creates the job, or reopens the key's uncharged job, in one transaction. The key's row
 * is locked first, so simultaneous duplicates wait here and all but one find the job; then the payer, so that their
 * open work can be summed. A refusal rolls everything back. After BEGIN a new job takes two round trips: what is locked and
 * read, and what is written.
 */
async function acceptAlone(pool: Pool, asked: AskedAcceptance, limits: AcceptanceLimits): Promise<Acceptance> {
  try {
    return await inLimitedTransaction(pool, limits, [asked], (transaction, transactionLimits) =>
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

/** Runs a transaction in which payments are accepted, with limits that count what it reserves. */
async function inLimitedTransaction<T>(
  pool: Pool,
  { budget, newPayers }: AcceptanceLimits,
  asked: readonly AskedAcceptance[],
  work: (transaction: PipelinedTransaction, limits: UnchargedLimits) => Promise<T>,
): Promise<T> {
  const limits = { budget, newPayers: newPayers.forTransaction(asked.map(({ job }) => job.clientNetwork)) }
  return await inPipelinedTransaction(pool, (transaction) => work(transaction, limits))
}

/** Adds the wait for others and for a connection: PostgreSQL's `now()` is the beginning of the transaction. */
function withElapsed({ job, askedAtMs }: AskedAcceptance): NewJob {
  const { exposure } = job
  return { ...job, exposure: { ...exposure, verifiedMsAgo: exposure.verifiedMsAgo + performance.now() - askedAtMs } }
}

function newClaim(job: NewJob, jobId: string = newId()): Claim {
  return { job, jobId, authorizationId: newId(), holder: null }
}

async function acceptUnderLocks(sql: PipelinedTransaction, job: NewJob, limits: UnchargedLimits): Promise<Acceptance> {
  const claim = newClaim(job)
  const { key, accepted } = await claimOne(sql, claim, limits)
  if (!key?.isSameRequest) return { outcome: 'other_request' }
  if (accepted) {
    await insertStagedUpload(sql, claim.jobId, job.stagedUpload)
    // Without the job the claim and the upload, which refer to it, could not be committed.
    await sql.commitBehind(insertJobs(sql, [accepted]))
    return { outcome: 'accepted', jobId: claim.jobId }
  }
  if (key.holder === null) return await findNonceHolder(sql, claim.jobId, job.authorization)
  const holder = await readHolder(sql, key.holder)
  if (holder.payer !== job.authorization.payer) return { outcome: 'other_request' }
  if (holder.state === 'settlement_failed' && (await isResultComplete(sql, key.holder)))
    return await settleAgain(sql, key.holder, job)
  if (statesBefore('accepted').includes(holder.state)) return await runAgain(sql, key.holder, job, limits)
  return { outcome: 'exists', jobId: key.holder }
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
