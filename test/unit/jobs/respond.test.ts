import { expect, it } from 'vitest'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { respond } from '../../../api/paid-request/job/respond.ts'

/** Returns the error of a failed job, which needs no dependency. */
function errorOf(failureCode: ErrorCode): unknown {
  try {
    return respond({ state: 'failed', failureCode }, {} as never, {} as never, true)
  } catch (error) {
    return error
  }
}

it('a job that failed with a 429 states when to retry', () => {
  expect(errorOf('uncharged_work_limit')).toMatchObject({ code: 'uncharged_work_limit', retryAfterSeconds: 5 })
  expect(errorOf('provider_rejected')).toMatchObject({ code: 'provider_rejected', retryAfterSeconds: undefined })
})
