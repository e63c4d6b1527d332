import { AppError } from '#shared/errors/app-error.ts'
import type { ReviewEnding } from '#shared/jobs/job.ts'

/** Returns the error that says how a person ended the payment of a call. */
export function resolvedError(ending: ReviewEnding): AppError {
  switch (ending.outcome) {
    case 'refunded':
      return new AppError('payment_refunded', {
        message: `The payment of this call was refunded in transaction ${ending.transaction}. The key stays with it; use a new key to make the call again.`,
      })
    case 'paid_outside':
      return new AppError('payment_resolved_outside')
    case 'written_off':
      return new AppError('payment_written_off')
  }
}
