import { setTimeout as delay } from 'node:timers/promises'
import { AppError } from '#shared/errors/app-error.ts'
import type { AcceptanceStore, PermitCall } from '#shared/ledger/acceptance/acceptance-store.ts'
import { type Authorization, lastingPermitOf } from '#shared/payment/authorization.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { ServingJob } from '../accept/serve-payment.ts'
import type { OutcomeAwaiter } from '../answer/await-outcome.ts'

/** How long the turn of a call lasts: the pause before its retry, then a challenge and a signature. */
const TURN_SECONDS = 2
/** How often a waiting call asks whether a turn is over, which lasts at most as long as above. */
const POLL_MS = 100
/** Calls of this process that wait for the end of a turn with a permit: they keep their bodies and have no slot. */
const MAXIMUM_READY = 64

/**
 * The order in which one payer's calls pay with permits. A payer has one permit nonce at a time, so one of concurrent
 * calls is accepted; the others wait here until it has settled. Then one of them gets the turn: it is answered, signs the
 * next permit and returns, while the others keep waiting. Each call is thus refused once, however many there are, and at
 * whichever API they wait: the turn is a row of the ledger.
 */
export interface PermitTurns {
  /**
   * Returns whether a call may try its permit now. While another call has the turn, this waits for its end; a turn that
   * passes unused goes to one of the calls that wait here, whose permit is still good. Rejects when the ledger does.
   */
  mayTry(call: PermitCall): Promise<boolean>
  /**
   * Waits until the payer has no open work and the call has the turn. Returns whether it has: not when `signal` aborted,
   * or the ledger cannot be read.
   */
  wait(call: PermitCall, signal: AbortSignal): Promise<boolean>
  /** Ends the turn of a call that returned to this process, if it has it: its payment was accepted or refused. */
  end(call: PermitCall): Promise<void>
}

interface Dependencies {
  readonly store: Pick<AcceptanceStore, 'findOpenJob' | 'findPermitTurn' | 'takePermitTurn' | 'endPermitTurn'>
  readonly outcomes: Pick<OutcomeAwaiter, 'wait'>
  readonly logger: Logger
}

/** Creates the turns over the ledger. */
export function createPermitTurns(
  { store, outcomes, logger }: Dependencies,
  turnSeconds: number = TURN_SECONDS,
): PermitTurns {
  /** Calls that returned to this process during their turn. */
  const returned = new Set<string>()
  let ready = 0

  async function takeUnused(call: PermitCall): Promise<boolean> {
    for (;;) {
      await delay(POLL_MS)
      if (await store.takePermitTurn(call, turnSeconds)) return true
      // The turn was used: permits that were signed meanwhile are useless.
      if ((await store.findOpenJob(call.payer)) !== null) return false
    }
  }

  return {
    mayTry: async (call) => {
      const holder = await store.findPermitTurn(call.payer)
      if (holder !== null && holder !== call.idempotencyKey) {
        if (ready >= MAXIMUM_READY) return false
        ready += 1
        const hasTurn = await takeUnused(call).finally(() => {
          ready -= 1
        })
        if (!hasTurn) return false
      }
      if (holder !== null) returned.add(call.idempotencyKey)
      return true
    },
    end: async (call) => {
      // Payments without a turn, which are nearly all, cost no statement.
      if (!returned.delete(call.idempotencyKey)) return
      // Without the ledger the turn ends by itself.
      await store.endPermitTurn(call).catch((error) => logger.warn('failed to end a permit turn', { error }))
    },
    wait: async (call, signal) => {
      try {
        while (!signal.aborted) {
          const open = await store.findOpenJob(call.payer)
          if (open !== null) await outcomes.wait(open, signal)
          else if (await store.takePermitTurn(call, turnSeconds)) return true
          else await delay(POLL_MS, undefined, { signal }).catch(() => undefined)
        }
      } catch (error) {
        logger.warn('failed to wait for the open work of a payer', { error })
      }
      return false
    },
  }
}

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
