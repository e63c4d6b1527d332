import { z } from 'zod'
import { ERROR_CODES } from '#shared/errors/error-codes.ts'
import { type AtomicAmount, atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { UnchargedKind } from '#shared/payment/uncharged-budget.ts'
import type { Job, JobFailure } from './job.ts'

export interface UnchargedWork {
  readonly kind: UnchargedKind
  /** An upper bound of its cost. */
  readonly amount: AtomicAmount
}

/**
 * Returns the uncharged work of a job that ends with this failure; `null` when no vendor worked and the caller is not
 * to blame.
 */
export function unchargedWorkOf(job: Pick<Job, 'terms' | 'authorization'>, failure: JobFailure): UnchargedWork | null {
  const maximum = job.authorization.authorizedMaximum
  const atMost = (amount: AtomicAmount) => (amount < maximum ? amount : maximum)
  switch (failure.attempt) {
    case 'failed_empty':
      return { kind: 'empty_output', amount: atMost(failure.measured?.charge ?? maximum) }
    case 'failed_ambiguous':
      return {
        kind: failure.isLost === true ? 'lost_call' : 'unknown_outcome',
        amount: atMost(failure.measured?.charge ?? maximum),
      }
    case 'failed_definite':
    case 'none':
      // A 400 follows from what the caller sent, by the error table: it would happen again.
      return ERROR_CODES[failure.code].status === 400
        ? { kind: 'rejected_request', amount: atMost(minimumCharge(job.terms) ?? maximum) }
        : null
  }
}

const termsSchema = z.object({ minimum_charge_usd: z.string() })

/** Returns the operation's minimum charge at the time of the quote. */
function minimumCharge(terms: Job['terms']): AtomicAmount | null {
  const parsed = termsSchema.safeParse(terms)
  return parsed.success ? atomicFromDollars(parsed.data.minimum_charge_usd) : null
}
