import type { Acceptance, AdmissionStore, NewJob } from '#shared/jobs/admission-store.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { shareStatement } from '../batch.ts'
import type { Pool, Sql } from '../pool.ts'
import { inPipelinedTransaction, type PipelinedTransaction } from '../transaction.ts'
import { type AskedAcceptance, acceptJob, withElapsed } from './accept-job.ts'
import {
  AcceptanceRefused,
  claimNonces,
  exposureQuestion,
  lockFreeKeys,
  refuseOverExposure,
  type UnchargedLimits,
} from './claim-nonce.ts'
import { type AcceptedClaim, insertJobs } from './insert-jobs.ts'
import { type FundsAge, fundsAgeOf, type PayerExposure, readExposures } from './read-exposure.ts'

/** Longer requests are written alone: a shared statement has its own copy of each. */
const LONGEST_SHARED_BYTES = 64 * 1024

/**
 * Creates the acceptance of payments. Those that wait at the same time, for free keys, share one transaction, which waits
 * for no lock; each is judged by itself, under the locks of its key and its payer, those of one payer one after the
 * other. One that is left out is accepted or refused in a transaction of its own.
 */
export function createJobAcceptor(pool: Pool, limits: UnchargedLimits): AdmissionStore['acceptJob'] {
  const alone = (asked: AskedAcceptance) => acceptJob(pool, asked, limits)
  const sharing = (age: FundsAge) =>
    shareStatement<AskedAcceptance, Acceptance>({
      keyOf: ({ job }) => job.idempotencyKey,
      turnOf: ({ job }) => payerOf(job),
      together: (asked) => acceptTogether(pool, age, asked, limits),
      alone,
    })
  const shared = { block: sharing('block'), time: sharing('time') }
  return (job) => {
    const asked = { job, askedAtMs: performance.now() }
    const isShort = job.stagedUpload === null && job.effectiveJson.byteLength <= LONGEST_SHARED_BYTES
    return isShort ? shared[fundsAgeOf(job.exposure)](asked) : alone(asked)
  }
}

const payerOf = ({ authorization: { network, payer } }: NewJob) => `${network} ${payer}`

async function acceptTogether(
  pool: Pool,
  age: FundsAge,
  asked: readonly AskedAcceptance[],
  limits: UnchargedLimits,
): Promise<ReadonlyMap<string, Acceptance>> {
  return await inPipelinedTransaction(pool, async (transaction) => {
    const jobs = asked.map(withElapsed)
    const questions = jobs.map((job) => exposureQuestion(job, limits))
    // The exposures are read after the locks, with a snapshot of their own.
    const [locked, exposures] = await Promise.all([
      lockFreeKeys(transaction, jobs),
      readExposures(transaction, age, questions),
    ])
    const accepted: AcceptedClaim[] = []
    const refused: Refusal[] = []
    for (const [index, job] of jobs.entries()) {
      const exposure = exposures[index]?.[1]
      if (!exposure || !locked.has(job.idempotencyKey) || claimsSameNonce(job, accepted)) continue
      const claim = { jobId: newId(), authorizationId: newId(), job }
      const judged = await judge(transaction, claim.jobId, job, withAccepted(exposure, job, accepted), limits)
      if (typeof judged === 'boolean') accepted.push({ ...claim, isNewPayer: judged })
      else refused.push({ job, acceptance: judged })
    }
    const written = accepted.length === 0 ? new Set<string>() : await writeAccepted(transaction, accepted)
    return new Map<string, Acceptance>([
      ...accepted
        .filter(({ jobId }) => written.has(jobId))
        .map(({ job, jobId }) => [job.idempotencyKey, { outcome: 'accepted', jobId }] as const),
      ...refused
        .filter(({ job }) => isRefusedWith(job, accepted, written))
        .map(({ job, acceptance }) => [job.idempotencyKey, acceptance] as const),
    ])
  })
}

/** A payment that is refused, with its answer. */
interface Refusal {
  readonly job: NewJob
  readonly acceptance: Acceptance
}

/** Without its job no claim can be committed, and no job is written without its claim. Returns the ids of the jobs. */
async function writeAccepted(
  transaction: PipelinedTransaction,
  accepted: readonly AcceptedClaim[],
): Promise<ReadonlySet<string>> {
  const claimed = claimNonces(transaction, accepted)
  const [written] = await transaction.commitBehind(Promise.all([insertJobs(transaction, accepted), claimed]))
  return written
}

/** Returns whether another payment claims this one's nonce. */
function claimsSameNonce({ authorization: { network, payer, nonce } }: NewJob, accepted: readonly AcceptedClaim[]) {
  return accepted.some(
    ({ job: { authorization: other } }) => other.nonce === nonce && other.payer === payer && other.network === network,
  )
}

/** Adds the payer's payments that were accepted before in this transaction, which the ledger does not have yet. */
function withAccepted(exposure: PayerExposure, job: NewJob, accepted: readonly AcceptedClaim[]): PayerExposure {
  const before = accepted.filter((one) => payerOf(one.job) === payerOf(job))
  if (before.length === 0) return exposure
  const open = before.map(
    ({
      job: {
        authorization,
        exposure: { needsPermit },
      },
    }) => ({
      nonce: authorization.nonce,
      amount: authorization.authorizedMaximum,
      byPermit: needsPermit && authorization.gasSponsoring !== null,
      isSettling: false,
    }),
  )
  return { ...exposure, open: [...exposure.open, ...open] }
}

/**
 * Returns whether a refusal holds: every payment that it counted was written, and no claim of a permit would have been
 * the reason before it.
 */
function isRefusedWith(job: NewJob, accepted: readonly AcceptedClaim[], written: ReadonlySet<string>): boolean {
  return (
    !job.exposure.needsPermit && accepted.every((one) => written.has(one.jobId) || payerOf(one.job) !== payerOf(job))
  )
}

/** Returns whether the payer is new, or why the payment is refused. */
async function judge(
  sql: Sql,
  jobId: string,
  job: NewJob,
  exposure: PayerExposure,
  limits: UnchargedLimits,
): Promise<boolean | Acceptance> {
  try {
    return await refuseOverExposure(sql, jobId, job, exposure, limits)
  } catch (error) {
    if (error instanceof AcceptanceRefused) return error.acceptance
    throw error
  }
}
