import type { ClaimedJob } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure, ExposureTerms } from '#shared/payment/exposure.ts'
import type { ExhaustedBudget, UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { findExhaustedBudget } from '../admission/find-exhausted-budget.ts'
import {
  type ExposureQuestion,
  type FundsAge,
  fundsAgeOf,
  type PayerExposure,
  readExposures,
} from '../admission/read-exposure.ts'
import { shareStatement } from '../batch.ts'
import type { Sql } from '../pool.ts'

interface Asked {
  readonly question: ExposureQuestion
  readonly askedAtMs: number
}

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

/**
 * Creates a function that reads the work of a job's payer with a prior claim on their funds (accepted before this job, or
 * already being worked on), with the charges that settled since `funds` were read or, without a reading, within the last
 * `verifiedMsAgo` milliseconds. Readings of jobs that are checked at the same time are one statement, and so one
 * snapshot, taken after each of them was asked for.
 */
export function createExposureAheadReader(sql: Sql, budget: UnchargedBudget) {
  const reading = (age: FundsAge) =>
    shareStatement<Asked, PayerExposure>({
      keyOf: ({ question }) => question.aheadOf?.id ?? '',
      run: async (asked) => {
        const exposures = await readExposures(sql, age, asked.map(withElapsed))
        return new Map(exposures.map(([{ aheadOf }, exposure]) => [aheadOf?.id ?? '', exposure]))
      },
    })
  const readers = { block: reading('block'), time: reading('time') }
  const { windowSeconds } = budget
  return async (job: ClaimedJob, since: Pick<ExposureTerms, 'funds' | 'verifiedMsAgo'>): Promise<ExposureAhead> => {
    const { payer } = job.authorization
    const question = { ...since, payer, aheadOf: job, windowSeconds, paidUpTo: ANY_CHARGE }
    const read = readers[fundsAgeOf(question)]
    const { uncharged, lost: _, paid, ...exposure } = await read({ question, askedAtMs: performance.now() })
    return {
      ...exposure,
      hasPaid: paid !== null && paid >= ANY_CHARGE,
      exhausted: await findExhaustedBudget(sql, payer, uncharged, budget),
    }
  }
}

/** Adds the wait for others' statements: charges that settled during it count. */
function withElapsed({ question, askedAtMs }: Asked): ExposureQuestion {
  return { ...question, verifiedMsAgo: question.verifiedMsAgo + performance.now() - askedAtMs }
}
