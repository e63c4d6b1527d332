import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { isUnserviceable } from '../providers/failures.ts'
import type { ProviderFailure } from '../providers/provider.ts'

/** Follows the failed calls of one job. */
export interface Failover {
  /** Records the failure of a call. Returns whether the next deployment may be called. */
  mayContinueAfter(failure: ProviderFailure): boolean
  /** Returns the code that the job ends with after its last failure. */
  codeAfter(last: ProviderFailure): ErrorCode
}

/** An input that a second deployment rejects as well is at fault itself. */
const MAXIMUM_REJECTIONS = 2

/**
 * Creates the rules by which a job moves to the next of its model's deployments: only after a definite failure, which
 * means that the vendor did no billable work.
 *
 * A limit of a deployment is not the caller's fault, so a retry is ruled out only when it cannot help:
 * `request_unsupported` when no deployment's model supports the request, and `provider_rejected` when two of them
 * rejected the input, or when no other could still accept it. A fault in a deployment's setup, such as a voice that its
 * account does not have, is neither: what is offered should work, so it ends as `provider_unavailable`.
 */
export function createFailover(deployments: number): Failover {
  let unserviceable = 0
  let rejections = 0
  return {
    mayContinueAfter(failure) {
      if (failure.certainty !== 'definite') return false
      if (isUnserviceable(failure)) unserviceable += 1
      if (failure.code === 'provider_unavailable') return true
      if (failure.rejectedBy !== 'deployment') return false
      rejections += 1
      return rejections < MAXIMUM_REJECTIONS
    },
    codeAfter(last) {
      if (last.certainty !== 'definite') return last.code
      if (unserviceable === deployments) return 'request_unsupported'
      if (rejections === 0 || (last.code === 'provider_rejected' && last.rejectedBy === undefined)) return last.code
      const isRefusedByAll = rejections >= MAXIMUM_REJECTIONS || rejections + unserviceable === deployments
      return isRefusedByAll ? 'provider_rejected' : 'provider_unavailable'
    },
  }
}
