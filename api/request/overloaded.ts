import { AppError } from '#shared/errors/app-error.ts'

/**
 * The share of every limit that unpaid requests may use. The rest is kept for payments, so that signed retries find
 * room.
 */
export const UNPAID_SHARE = 0.75

/** Creates the refusal of work that does not fit, with the reason. */
export function overloaded(reason: string, retryAfterSeconds: number): AppError {
  const message = `The service accepts no more work at the moment. ${reason} No payment was taken; retry after the delay in Retry-After.`
  return new AppError('overloaded', { message, retryAfterSeconds })
}
