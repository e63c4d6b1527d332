import { randomUUID } from 'node:crypto'
import type { Acceptance, AdmissionStore, NewJob } from '#shared/jobs/admission-store.ts'
import { shareStatement } from '../batch.ts'
import type { Pool, Sql } from '../pool.ts'
import { inPipelinedTransaction } from '../transaction.ts'
import { type AskedAcceptance, acceptJob, withElapsed } from './accept-job.ts'
import {
  AcceptanceRefused,
  claimWithFreeKeys,
  exposureQuestion,
  type NewClaim,
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
 * is left out is accepted, or refused, in a transaction of its own.
 */
export function createJobAcceptor(pool: Pool, limits: UnchargedLimits): AdmissionStore['acceptJob'] {
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
  limits: UnchargedLimits,
): Promise<ReadonlyMap<string, Acceptance>> {
  return await inPipelinedTransaction(pool, async (transaction) => {
    const claims = asked.map((one) => ({
      jobId: randomUUID(),
      authorizationId: randomUUID(),
      job: withElapsed(one),
    }))
    const questions = claims.map(({ job }) => exposureQuestion(job, limits))
    const [claimed, exposures] = await Promise.all([
      claimWithFreeKeys(transaction, claims),
      readExposures(transaction, age, questions),
    ])
    const accepted: AcceptedClaim[] = []
    const refused: (NewClaim & { readonly acceptance: Acceptance })[] = []
    for (const [index, claim] of claims.entries()) {
      const exposure = exposures[index]?.[1]
      if (!exposure || !claimed.has(claim.jobId)) continue
      const judged = await judge(transaction, claim, exposure, limits)
      if (typeof judged === 'boolean') accepted.push({ ...claim, isNewPayer: judged })
      else refused.push({ ...claim, acceptance: judged })
    }
    // Without its job no claim can be committed, so a refused one that stayed would undo the others.
    const written = [insertJobs(transaction, accepted), dropClaims(transaction, refused)]
    await transaction.commitBehind(Promise.all(written))
    return new Map<string, Acceptance>([
      ...accepted.map(({ job, jobId }) => [payerOf(job), { outcome: 'accepted', jobId }] as const),
      ...refused.map(({ job, acceptance }) => [payerOf(job), acceptance] as const),
    ])
  })
}

/** Returns whether the payer is new, or the refusal. */
async function judge(
  sql: Sql,
  { jobId, job }: NewClaim,
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

/** Takes back the claims of refused payments, which nobody else has seen. */
async function dropClaims(sql: Sql, claims: readonly NewClaim[]): Promise<void> {
  if (claims.length === 0) return
  await sql.query({
    name: 'drop_claims',
    text: 'DELETE FROM authorizations WHERE id = ANY((SELECT $1::uuid[])::uuid[])',
    values: [claims.map(({ authorizationId }) => authorizationId)],
  })
}
