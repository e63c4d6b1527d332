import { BaseError } from 'viem'
import { isRevert } from '../network/rpc-failure.ts'
import { shareCalls } from '../network/share-calls.ts'
import type { PaymentSimulation, SimulatedPayment } from './simulate-many.ts'

/** Most payments of one call: with permits they use 19 million gas, and nodes allow 25 million and more. */
const MAXIMUM_PAYMENTS = 32
/** A payment waits at most this long for others, or for the call before its own. */
const LONGEST_WAIT_MS = 20
/** Full calls that may be in progress. */
const CALLS_AT_ONCE = 4
/** A shared call that takes longer counts as failed, since something in it may be slow. */
const SHARED_PATIENCE_MS = 1000
/** How long calls stay smaller after one failed: its size may be more than the node allows. */
const SMALLER_FOR_MS = 10_000

type SimulatePayments = (payments: readonly SimulatedPayment[]) => Promise<readonly PaymentSimulation[]>

/**
 * Creates the simulation of one payment in calls that concurrent payments share. Resolves to `null` when the payment has
 * to be simulated in another way: a shared call failed, which says nothing about any of its payments, or the contract
 * does not answer as it should. Rejects when the network fails at a call with this payment only.
 */
export function createSharedSimulation(
  simulatePayments: SimulatePayments,
): (payment: SimulatedPayment) => Promise<PaymentSimulation | null> {
  let maximum = MAXIMUM_PAYMENTS
  let smallerUntil = 0
  return shareCalls<SimulatedPayment, PaymentSimulation | null>(
    async (payments) => {
      try {
        const simulated = simulatePayments(payments)
        return await (payments.length === 1 ? simulated : orTooSlow(simulated))
      } catch (error) {
        if (payments.length === 1 && isNetworkFailure(error)) throw error
        maximum = Math.max(1, Math.floor(payments.length / 2))
        smallerUntil = performance.now() + SMALLER_FOR_MS
        return payments.map(() => null)
      }
    },
    {
      maximum: () => (performance.now() < smallerUntil ? maximum : MAXIMUM_PAYMENTS),
      longestWaitMs: LONGEST_WAIT_MS,
      callsAtOnce: CALLS_AT_ONCE,
    },
  )
}

async function orTooSlow<T>(simulated: Promise<T>): Promise<T> {
  const { promise: tooSlow, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('a shared simulation took too long')), SHARED_PATIENCE_MS)
  try {
    return await Promise.race([simulated, tooSlow])
  } finally {
    clearTimeout(timer)
  }
}

/** Returns whether a call got no answer from the contract, good or bad. */
function isNetworkFailure(error: unknown): boolean {
  return error instanceof BaseError && !isRevert(error)
}
