import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { Authorization } from '#shared/payment/authorization.ts'

/**
 * Returns the job that this payer already has under this key and that answers the request, or `null` when a new job
 * must be accepted. Throws `authorization_already_used` and `idempotency_key_reused` (409).
 *
 * A job that ended uncharged is retried only with a fresh authorization: the previous one may have been used for a
 * provider call whose outcome is unknown.
 */
export async function findOwnJob(
  store: Pick<AdmissionStore, 'findPriorWork'>,
  idempotencyKey: string,
  authorization: Authorization,
): Promise<string | null> {
  const { holder, claimedFor } = await store.findPriorWork(idempotencyKey, authorization)
  if (claimedFor !== null && claimedFor !== holder?.jobId) throw new AppError('authorization_already_used')
  if (!holder) return null
  if (holder.payer !== authorization.payer) throw new AppError('idempotency_key_reused')
  const canBePaidAgain = statesBefore('accepted').includes(holder.state) || holder.state === 'settlement_failed'
  return claimedFor !== null || !canBePaidAgain ? holder.jobId : null
}
