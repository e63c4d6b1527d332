import type { ExecutionStore } from '#shared/jobs/execution-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { UnchargedBudget } from '#shared/payment/uncharged-budget.ts'
import { findExhaustedBudget } from '../admission/find-exhausted-budget.ts'
import {
  type ExposureQuestion,
  type FundsAge,
  fundsAgeOf,
  type PayerExposure,
  readExposure,
  readExposures,
} from '../admission/read-exposure.ts'
import { shareStatement } from '../batch.ts'
import type { Sql } from '../pool.ts'

interface Asked {
  readonly question: ExposureQuestion
  readonly askedAtMs: number
}

const ANY_CHARGE = atomicAmount(1n)

/**
 * Creates a function that reads the work with a prior claim on a payer's funds. Readings of jobs that are checked at the
 * same time are one statement, and so one snapshot, taken after each of them was asked for.
 */
export function createExposureAheadReader(sql: Sql, budget: UnchargedBudget): ExecutionStore['readExposureAhead'] {
  const reading = (age: FundsAge) =>
    shareStatement<Asked, PayerExposure>({
      keyOf: ({ question }) => question.aheadOf?.id ?? '',
      together: async (asked) => {
        const exposures = await readExposures(sql, age, asked.map(withElapsed))
        return new Map(exposures.map(([{ aheadOf }, exposure]) => [aheadOf?.id ?? '', exposure]))
      },
      alone: (asked) => readExposure(sql, withElapsed(asked)),
    })
  const readers = { block: reading('block'), time: reading('time') }
  const { windowSeconds } = budget
  return async (job, since) => {
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
