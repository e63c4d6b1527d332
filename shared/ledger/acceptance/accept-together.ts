import pLimit, { type LimitFunction } from 'p-limit'
import { lastingPermitOf } from '#shared/payment/authorization.ts'
import type { OpenPayment } from '#shared/payment/exposure.ts'
import { newId } from '#shared/runtime/new-id.ts'
import type { Pool, Sql } from '../pool.ts'
import { shareStatement } from '../share-statements.ts'
import {
  type AcceptanceLimits,
  type AskedAcceptance,
  acceptJob,
  inLimitedTransaction,
  withElapsed,
} from './accept-job.ts'
import { type Acceptance, AcceptanceRefused, type NewJob } from './acceptance.ts'
import {
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

/** A payment that waits for the lock of its payer occupies a connection: others must find one. */
const MOST_ALONE_OF_PAYER = 3

/**
 * Creates the acceptance of payments: authorization and job are written in one transaction, and the job's row is the
 * outbox. Those that wait at the same time, for free keys, share one transaction, which waits for no lock; each is
 * judged under the locks of its key and its payer, those of one payer one after the other. One that is left out, or
 * has to be refused, is accepted or refused in a transaction of its own.
 */
export function createJobAcceptor(pool: Pool, limits: AcceptanceLimits) {
  const limitPayer = limitEach(MOST_ALONE_OF_PAYER)
  const alone = (asked: AskedAcceptance) => limitPayer(payerOf(asked), () => acceptJob(pool, asked, limits))
  const sharing = (age: FundsAge) =>
    shareStatement<AskedAcceptance, Acceptance>({
      keyOf: ({ job }) => job.idempotencyKey,
      lockOf: payerOf,
      run: async (asked, lockedRows) =>
        lockedRows === 'skip' ? await acceptTogether(pool, age, asked, limits) : await acceptEach(asked, alone),
    })
  const shared = { block: sharing('block'), time: sharing('time') }
  return (job: NewJob): Promise<Acceptance> => {
    const asked = { job, askedAtMs: performance.now() }
    const isShort = job.stagedUpload === null && job.effectiveJson.byteLength <= LONGEST_SHARED_BYTES
    return isShort ? shared[fundsAgeOf(job.exposure)](asked) : alone(asked)
  }
}

async function acceptEach(
  asked: readonly AskedAcceptance[],
  alone: (asked: AskedAcceptance) => Promise<Acceptance>,
): Promise<ReadonlyMap<string, Acceptance>> {
  return new Map(await Promise.all(asked.map(async (one) => [one.job.idempotencyKey, await alone(one)] as const)))
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

const payerOf = ({ job: { authorization } }: Pick<AskedAcceptance, 'job'>) =>
  `${authorization.network} ${authorization.payer}`

async function acceptTogether(
  pool: Pool,
  age: FundsAge,
  asked: readonly AskedAcceptance[],
  acceptanceLimits: AcceptanceLimits,
): Promise<ReadonlyMap<string, Acceptance>> {
  const networks = asked.map(({ job }) => job.clientNetwork)
  return await inLimitedTransaction(pool, acceptanceLimits, networks, async (transaction, limits) => {
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
    const accepted: AcceptedClaim[] = []
    for (const [first, ...others] of Map.groupBy(presented, payerOf).values())
      if (first) accepted.push(...(await judgePayments(transaction, [first, ...others], limits)))
    if (accepted.length === 0) return new Map()
    // Without its job no claim can be committed, and no job is written without its claim.
    const claimed = claimNonces(transaction, accepted)
    const [written] = await transaction.commitBehind(Promise.all([insertJobs(transaction, accepted), claimed]))
    return new Map<string, Acceptance>(
      accepted
        .filter(({ jobId }) => written.has(jobId))
        .map(({ job, jobId }) => [job.idempotencyKey, { outcome: 'accepted', jobId }]),
    )
  })
}

/** A payment whose key and payer are locked, and what its payer has open. */
interface PresentedPayment {
  readonly job: NewJob
  readonly exposure: PayerExposure
}

/**
 * Judges payments of one payer in their order, each with those that were accepted before it, which are not written yet.
 * Returns these. Those from the first one on that must be refused are left out.
 */
async function judgePayments(
  sql: Sql,
  presented: readonly [PresentedPayment, ...PresentedPayment[]],
  limits: UnchargedLimits,
): Promise<readonly AcceptedClaim[]> {
  const accepted: AcceptedClaim[] = []
  const [first] = presented
  try {
    await refusePayer(sql, null, first.job, first.exposure, limits)
    for (const { job, exposure } of presented) {
      if (accepted.some((other) => claimsTheSame(job, other.job))) return accepted
      const open = [...exposure.open, ...accepted.map(openPaymentOf)]
      const isNewPayer = await refuseOverExposure(sql, job, { ...exposure, open }, limits)
      accepted.push({ jobId: newId(), authorizationId: newId(), job, isNewPayer })
    }
  } catch (error) {
    if (!(error instanceof AcceptanceRefused)) throw error
  }
  return accepted
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
    lasting: lastingPermitOf(authorization),
    isSettling: false,
  }
}
