import type { AcceptanceStore } from '#shared/adapters/postgres/acceptance/acceptance-store.ts'
import type { PresentedClaim } from '#shared/adapters/postgres/acceptance/find-prior-work.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { statesBefore } from '#shared/jobs/transitions.ts'

/**
 * Returns the job that this payer already has under this key and that answers the request, or `null` when a new job
 * must be accepted. Throws `authorization_already_used` and `idempotency_key_reused` (409), and
 * `fresh_signature_required` (402) for a payment that was accepted with another challenge token: once it is settled,
 * anyone can read its signature on chain, and only the token shows that the caller is the one who was accepted.
 *
 * A job that ended uncharged is retried only with a fresh authorization: the previous one may have been used for a
 * provider call whose outcome is unknown.
 */
export async function findOwnJob(
  store: Pick<AcceptanceStore, 'findPriorWork'>,
  idempotencyKey: string,
  payment: PresentedClaim,
): Promise<string | null> {
  const { holder, claim } = await store.findPriorWork(idempotencyKey, payment)
  if (claim !== null && claim.jobId !== holder?.jobId) throw new AppError('authorization_already_used')
  if (!holder) return null
  if (holder.payer !== payment.authorization.payer) {
    if (holder.isReleasable) return null
    throw new AppError('idempotency_key_reused', { param: 'x-idempotency-key' })
  }
  if (claim !== null && !claim.hasSameToken) throw new AppError('fresh_signature_required')
  const canBePaidAgain = statesBefore('accepted').includes(holder.state)
  return claim !== null || !canBePaidAgain ? holder.jobId : null
}
