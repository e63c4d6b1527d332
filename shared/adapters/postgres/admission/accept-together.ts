import type { Acceptance, AdmissionStore, NewJob } from '#shared/jobs/admission-store.ts'
import type { OpenPayment } from '#shared/payment/exposure.ts'
import { newId } from '#shared/runtime/new-id.ts'
import { shareStatement } from '../batch.ts'
import type { Pool, Sql } from '../pool.ts'
import type { PipelinedTransaction } from '../transaction.ts'
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
  refusePayer,
  type UnchargedLimits,
} from './claim-nonce.ts'
import { type AcceptedClaim, insertJobs } from './insert-jobs.ts'
import { type FundsAge, fundsAgeOf, type PayerExposure, readExposures } from './read-exposure.ts'

/** Longer requests are written alone: a shared statement has its own copy of each. */
const LONGEST_SHARED_BYTES = 64 * 1024

/**
 * Creates the acceptance of payments. Those that wait at the same time, for free keys, share one transaction, which waits
 * for no lock; each is judged under the locks of its key and its payer, those of one payer one after the other. One that
 * is left out is accepted or refused in a transaction of its own.
 */
export function createJobAcceptor(pool: Pool, limits: AcceptanceLimits): AdmissionStore['acceptJob'] {
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
    const presented = jobs.flatMap((job, index) => {
      const exposure = exposures[index]?.[1]
      return exposure && locked.has(job.idempotencyKey) ? [{ job, exposure }] : []
    })
    const judged: JudgedPayments[] = []
    for (const [first, ...others] of Map.groupBy(presented, ({ job }) => payerOf(job)).values())
      if (first) judged.push(await judgePayments(transaction, [first, ...others], limits))
    const written = await writeAccepted(
      transaction,
      judged.flatMap(({ accepted }) => accepted),
    )
    return new Map(judged.flatMap((one) => answersOf(one, written)))
  })
}

/** A payment whose key and payer are locked, and what its payer has open. */
interface PresentedPayment {
  readonly job: NewJob
  readonly exposure: PayerExposure
}

/** Payments of one payer. Those in neither list are left out. */
interface JudgedPayments {
  readonly accepted: readonly AcceptedClaim[]
  readonly refused: readonly { readonly job: NewJob; readonly acceptance: Acceptance }[]
}

/** Judges payments of one payer in their order, each with those that were accepted before it, which are not written yet. */
async function judgePayments(
  sql: Sql,
  presented: readonly [PresentedPayment, ...PresentedPayment[]],
  limits: UnchargedLimits,
): Promise<JudgedPayments> {
  const accepted: AcceptedClaim[] = []
  const refused: { job: NewJob; acceptance: Acceptance }[] = []
  const [first] = presented
  const refusedPayer = await orRefusal(refusePayer(sql, null, first.job, first.exposure, limits))
  for (const { job, exposure } of presented) {
    if (accepted.some((other) => claimsTheSame(job, other.job))) continue
    const open = [...exposure.open, ...accepted.map(openPaymentOf)]
    const judged = refusedPayer ?? (await orRefusal(refuseOverExposure(sql, job, { ...exposure, open }, limits)))
    if (!(judged instanceof AcceptanceRefused))
      accepted.push({ jobId: newId(), authorizationId: newId(), job, isNewPayer: judged })
    // A permit that another payment has claimed would be the reason before any other one.
    else if (!job.exposure.needsPermit || judged.acceptance.outcome === 'permit_already_used')
      refused.push({ job, acceptance: judged.acceptance })
  }
  return { accepted, refused }
}

/** Returns what the work throws to refuse a payment, instead of throwing it. */
async function orRefusal<T>(judging: Promise<T>): Promise<T | AcceptanceRefused> {
  try {
    return await judging
  } catch (error) {
    if (error instanceof AcceptanceRefused) return error
    throw error
  }
}

/** Returns whether two payments of one payer cannot both be claimed. */
function claimsTheSame({ authorization: one, exposure }: NewJob, { authorization: other, exposure: others }: NewJob) {
  const [permit, othersPermit] = [one.gasSponsoring, other.gasSponsoring]
  const usesPermits = exposure.needsPermit && others.needsPermit && permit !== null && othersPermit !== null
  return one.nonce === other.nonce || (usesPermits && permit.nonce === othersPermit.nonce)
}

function openPaymentOf({ job: { authorization, exposure } }: AcceptedClaim): OpenPayment {
  return {
    nonce: authorization.nonce,
    amount: authorization.authorizedMaximum,
    byPermit: exposure.needsPermit && authorization.gasSponsoring !== null,
    isSettling: false,
  }
}

/** Without its job no claim can be committed, and no job is written without its claim. Returns the ids of the jobs. */
async function writeAccepted(
  transaction: PipelinedTransaction,
  accepted: readonly AcceptedClaim[],
): Promise<ReadonlySet<string>> {
  if (accepted.length === 0) return new Set()
  const claimed = claimNonces(transaction, accepted)
  const [written] = await transaction.commitBehind(Promise.all([insertJobs(transaction, accepted), claimed]))
  return written
}

/** Returns the answers by idempotency key. A refusal holds only if all that were accepted before it were written. */
function answersOf(
  { accepted, refused }: JudgedPayments,
  written: ReadonlySet<string>,
): readonly (readonly [string, Acceptance])[] {
  const done = accepted.filter(({ jobId }) => written.has(jobId))
  return [
    ...done.map(({ job, jobId }) => [job.idempotencyKey, { outcome: 'accepted', jobId }] as const),
    ...(done.length === accepted.length ? refused : []).map(
      ({ job, acceptance }) => [job.idempotencyKey, acceptance] as const,
    ),
  ]
}
