import { AppError } from '#shared/errors/app-error.ts'
import { type Authorization, lastingPermitOf } from '#shared/payment/authorization.ts'
import type { PermitTurns } from '../payment/permit-turns.ts'
import type { ServingJob } from './accept-job.ts'

/** Pause of a call that has the turn: the client's own node must have seen the settlement before. */
const TURN_RETRY_SECONDS = 0.5
/** Pause of a call that does not. */
const RETRY_SECONDS = 2

interface SignedCall {
  readonly idempotencyKey: string
  readonly authorization: Pick<Authorization, 'payer' | 'gasSponsoring' | 'authorizedMaximum'>
  /** Frees the request's content and body, since only a newly signed request can be accepted. */
  readonly releaseContent: () => void
  /** Called when the caller begins to wait; the signal aborts when they must be answered. */
  readonly startWaitingForTurn: (payer: string) => AbortSignal
}

/**
 * Runs `accept`, unless other calls of the payer that pay with permits are ahead. A call whose permit is in use by
 * another payment is held until the payer may sign the next permit, and then refused with `permit_already_used` (409):
 * the retry of an official SDK then succeeds. A lasting permit needs no turn, since calls may share it.
 */
export async function acceptInTurn(
  { permitTurns }: { readonly permitTurns: PermitTurns },
  { idempotencyKey, authorization, releaseContent, startWaitingForTurn }: SignedCall,
  accept: () => Promise<ServingJob>,
): Promise<ServingJob> {
  const { payer } = authorization
  const call = { payer, idempotencyKey }
  const isShared = lastingPermitOf(authorization) !== null
  try {
    if (authorization.gasSponsoring !== null && !isShared && !(await permitTurns.mayTry(call)))
      throw new AppError('permit_already_used')
    const job = await accept()
    await permitTurns.end(call)
    return job
  } catch (error) {
    await permitTurns.end(call)
    if (!(error instanceof AppError) || error.code !== 'permit_already_used') throw error
    releaseContent()
    const hasTurn = !isShared && (await permitTurns.wait(call, startWaitingForTurn(payer)))
    throw new AppError('permit_already_used', { retryAfterSeconds: hasTurn ? TURN_RETRY_SECONDS : RETRY_SECONDS })
  }
}
