import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { AdmissionStore } from '#shared/jobs/admission-store.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { OutcomeAwaiter } from '../job/await-outcome.ts'

/** How long the turn of a call lasts: the pause before its retry, then a challenge and a signature. */
const TURN_MS = 2000
/** First arrivals that are remembered for a payer while calls of theirs wait. */
const MAXIMUM_ARRIVALS = 256
/** Calls that wait for the end of a turn: they keep their bodies and have no place among the waiting callers. */
const MAXIMUM_READY = 16

/** A call that pays with a permit. */
export interface PermitCall {
  readonly payer: string
  readonly idempotencyKey: string
}

/**
 * The order in which one payer's calls pay with permits. A payer has one permit nonce at a time, so one of concurrent
 * calls is accepted; the others wait here until it has settled. Then one of them gets the turn: it is answered, signs the
 * next permit and returns, while the others keep waiting. Each call is thus refused once, however many there are. Every
 * process keeps its own order, and only the ledger decides which payment is accepted.
 */
export interface PermitTurns {
  /**
   * Returns whether a call may try its permit now. While another call has the turn, this waits for that one; a turn that
   * passes unused goes to the call that waits here, whose permit is still good.
   */
  mayTry(call: PermitCall): Promise<boolean>
  /**
   * Waits until the payer has no open work and the call has the turn. Returns whether it has: not when `signal` aborted,
   * or the ledger cannot be read.
   */
  wait(call: PermitCall, signal: AbortSignal): Promise<boolean>
  /** Ends the turn of a call. `isUsed`: its payment was accepted, so that permits signed meanwhile are useless. */
  end(call: PermitCall, isUsed: boolean): void
}

interface Waiter {
  readonly idempotencyKey: string
  readonly arrivedAt: number
  readonly proceed: (hasTurn: boolean) => void
}

/** One payer's calls. Exists while any of them waits or has the turn. */
interface PayerQueue {
  /** By their first arrival: a call that lost its turn to another process is the next one. */
  waiters: Waiter[]
  /** Calls with a permit that was signed during the present turn. */
  ready: Waiter[]
  readonly firstArrivals: LRUCache<string, number>
  turn: { readonly idempotencyKey: string; readonly end: (isUsed: boolean) => void } | null
  /** Aborts when the last waiter has left. */
  deserted: AbortController
}

interface Dependencies {
  readonly store: Pick<AdmissionStore, 'findOpenJob'>
  readonly outcomes: Pick<OutcomeAwaiter, 'wait'>
  readonly logger: Logger
}

/** Creates the turns of this process. */
export function createPermitTurns(dependencies: Dependencies, turnMs: number = TURN_MS): PermitTurns {
  const queues = new Map<string, PayerQueue>()

  async function serve(payer: string, queue: PayerQueue): Promise<void> {
    while (queue.waiters.length > 0) {
      const { signal } = queue.deserted
      const isReadable = await untilNothingIsOpen(dependencies, payer, signal)
      const [first] = queue.waiters
      // All have left; those that have come since begin a new wait.
      if (signal.aborted || first === undefined) continue
      if (isReadable) await takeTurns(queue, leave(queue, first), turnMs)
      else for (const waiter of queue.waiters) leave(queue, waiter).proceed(false)
    }
    queues.delete(payer)
  }

  return {
    mayTry: async ({ payer, idempotencyKey }) => {
      const queue = queues.get(payer)
      if (queue === undefined || queue.turn?.idempotencyKey === idempotencyKey) return true
      if (queue.turn === null || queue.ready.length >= MAXIMUM_READY) return false
      const turn = Promise.withResolvers<boolean>()
      queue.ready.push(newWaiter(queue, idempotencyKey, turn.resolve))
      return await turn.promise
    },
    end: ({ payer, idempotencyKey }, isUsed) => {
      const turn = queues.get(payer)?.turn
      if (turn?.idempotencyKey === idempotencyKey) turn.end(isUsed)
    },
    wait: async ({ payer, idempotencyKey }, signal) => {
      if (signal.aborted) return false
      const known = queues.get(payer)
      const queue = known ?? newPayerQueue()
      queues.set(payer, queue)
      const turn = Promise.withResolvers<boolean>()
      const waiter = newWaiter(queue, idempotencyKey, turn.resolve)
      join(queue, waiter)
      // A call that returns here could not use its turn: another payment of the payer is open.
      if (queue.turn?.idempotencyKey === idempotencyKey) queue.turn.end(true)
      if (known === undefined) void serve(payer, queue)
      const stopWaiting = () => leave(queue, waiter).proceed(false)
      signal.addEventListener('abort', stopWaiting)
      const hasTurn = await turn.promise
      signal.removeEventListener('abort', stopWaiting)
      return hasTurn
    },
  }
}

function newPayerQueue(): PayerQueue {
  const firstArrivals = new LRUCache<string, number>({ max: MAXIMUM_ARRIVALS })
  return { waiters: [], ready: [], firstArrivals, turn: null, deserted: new AbortController() }
}

function newWaiter({ firstArrivals }: PayerQueue, idempotencyKey: string, proceed: Waiter['proceed']): Waiter {
  const arrivedAt = firstArrivals.get(idempotencyKey) ?? performance.now()
  firstArrivals.set(idempotencyKey, arrivedAt)
  return { idempotencyKey, arrivedAt, proceed }
}

function join(queue: PayerQueue, waiter: Waiter): void {
  if (queue.waiters.length === 0) queue.deserted = new AbortController()
  queue.waiters = [...queue.waiters, waiter].toSorted((left, right) => left.arrivedAt - right.arrivedAt)
}

function leave(queue: PayerQueue, waiter: Waiter): Waiter {
  queue.waiters = queue.waiters.filter((other) => other !== waiter)
  if (queue.waiters.length === 0) queue.deserted.abort()
  return waiter
}

/** Passes the turn to a waiter and, as long as nobody uses it, to the calls that came with a permit in the meantime. */
async function takeTurns(queue: PayerQueue, first: Waiter, turnMs: number): Promise<void> {
  let isUsed = await takeTurn(queue, first, turnMs)
  for (let next = queue.ready.shift(); next !== undefined; next = queue.ready.shift())
    if (isUsed) next.proceed(false)
    else isUsed = await takeTurn(queue, next, turnMs)
}

/** Lets the call proceed whose turn it is. Returns whether its payment was accepted before the turn was over. */
async function takeTurn(queue: PayerQueue, { idempotencyKey, proceed }: Waiter, turnMs: number): Promise<boolean> {
  const ended = Promise.withResolvers<boolean>()
  const timer = new AbortController()
  queue.turn = { idempotencyKey, end: ended.resolve }
  proceed(true)
  const expired = delay(turnMs, false, { signal: timer.signal }).catch(() => false)
  const isUsed = await Promise.race([ended.promise, expired])
  timer.abort()
  queue.turn = null
  return isUsed
}

/** Waits until the payer has no open work, or until the abort. Returns false when the ledger cannot be read. */
async function untilNothingIsOpen(
  { store, outcomes, logger }: Dependencies,
  payer: string,
  deserted: AbortSignal,
): Promise<boolean> {
  try {
    for (let open = await store.findOpenJob(payer); open !== null && !deserted.aborted; ) {
      await outcomes.wait(open, deserted)
      open = await store.findOpenJob(payer)
    }
    return true
  } catch (error) {
    logger.warn('failed to wait for the open work of a payer', { error })
    return false
  }
}
