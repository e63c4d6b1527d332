import type { Acceptance, AdmissionStore, NewJob } from '#shared/jobs/admission-store.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { shareStatement } from '../batch.ts'
import type { Pool, Sql } from '../pool.ts'
import {
  type AcceptanceLimits,
  type AskedAcceptance,
  acceptJob,
  inLimitedTransaction,
  withElapsed,
} from './accept-job.ts'
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
 * Creates the acceptance of payments. Those of different payers that wait at the same time, for free keys, share one
 * transaction, which waits for no lock; each is judged by itself, under the locks of its key and its payer. One that
 * is left out, or has to be refused, is accepted or refused in a transaction of its own.
 */
export function createJobAcceptor(pool: Pool, limits: AcceptanceLimits): AdmissionStore['acceptJob'] {
  const alone = (asked: AskedAcceptance) => acceptJob(pool, asked, limits)
  const sharing = (age: FundsAge) =>
    shareStatement<AskedAcceptance, Acceptance>({
      keyOf: ({ job }) => payerOf(job),
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
  acceptanceLimits: AcceptanceLimits,
): Promise<ReadonlyMap<string, Acceptance>> {
  return await inLimitedTransaction(pool, acceptanceLimits, async (transaction, limits) => {
    const jobs = asked.map(withElapsed)
    const questions = jobs.map((job) => exposureQuestion(job, limits))
    // The exposures are read after the locks, with a snapshot of their own.
    const [locked, exposures] = await Promise.all([
      lockFreeKeys(transaction, jobs),
      readExposures(transaction, age, questions),
    ])
    const accepted: AcceptedClaim[] = []
    for (const [index, job] of jobs.entries()) {
      const exposure = exposures[index]?.[1]
      const jobId = newId()
      if (!exposure || !locked.has(job.idempotencyKey)) continue
      const isNewPayer = await judge(transaction, jobId, job, exposure, limits)
      if (isNewPayer !== 'refused') accepted.push({ jobId, authorizationId: newId(), job, isNewPayer })
    }
    if (accepted.length === 0) return new Map()
    // Without its job no claim can be committed, and no job is written without its claim.
    const claimed = claimNonces(transaction, accepted)
    const [written] = await transaction.commitBehind(Promise.all([insertJobs(transaction, accepted), claimed]))
    return new Map<string, Acceptance>(
      accepted
        .filter(({ jobId }) => written.has(jobId))
        .map(({ job, jobId }) => [payerOf(job), { outcome: 'accepted', jobId }]),
    )
  })
}

/** Returns whether the payer is new. */
async function judge(
  sql: Sql,
  jobId: string,
  job: NewJob,
  exposure: PayerExposure,
  limits: UnchargedLimits,
): Promise<boolean | 'refused'> {
  try {
    return await refuseOverExposure(sql, jobId, job, exposure, limits)
  } catch (error) {
    if (error instanceof AcceptanceRefused) return 'refused'
    throw error
  }
}
