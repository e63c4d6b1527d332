import { AppError } from '#shared/errors/app-error.ts'
import type { AdmissionStore } from '#shared/jobs/job-store.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'
import type { Authorization } from '#shared/payment/authorization.ts'

/**
 * The job that this payer already has under this key, when the request is to attach to it instead of paying again; `null`
 * when it needs a new acceptance. Throws `authorization_already_used` and `idempotency_key_reused` (409).
 *
 * A job that ended uncharged is repeated only by a fresh authorization: the one that paid for the attempt may have been
 * part of a provider call whose outcome nobody knows.
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
  const mayBePaidAfresh = statesBefore('accepted').includes(holder.state) || holder.state === 'settlement_failed'
  return claimedFor !== null || !mayBePaidAfresh ? holder.jobId : null
}
