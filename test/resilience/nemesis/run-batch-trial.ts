import { setTimeout as delay } from 'node:timers/promises'
import type { Payer } from '../../support/payer/payer.ts'
import type { CallKind } from '../calls/call-requests.ts'
import { between, createRandom, pick } from '../calls/random.ts'
import { type BatchKind, drawBatchFault } from './batch-faults.ts'
import type { Fault } from './fault.ts'
import { kill } from './faults.ts'
import type { Trial, TrialContext } from './run-trial.ts'

/** Quick ones, which are ready at about the same time. */
const CALL_KINDS: readonly CallKind[] = ['chat', 'message']
/** The first of them goes alone, from each worker. */
const [LEAST_CALLS, MOST_CALLS] = [6, 11]
/** What a fault waits for. */
export const LEAST_IN_BATCH = 2
const WORKERS = ['worker', 'worker-2'] as const

type Misbehavior = 'none' | 'hang_up' | 'duplicates'

interface DrawnCall {
  readonly kind: CallKind
  readonly misbehavior: Misbehavior
  readonly isSponsored: boolean
  readonly delayMs: number
}

interface DrawnFault {
  readonly kind: BatchKind
  readonly fault: Fault
}

/**
 * Draws calls that are paid at the same moment, and one or two faults of different resources, which a batch can meet
 * together.
 */
function draw(
  seed: number,
  kinds: readonly BatchKind[],
): { calls: readonly DrawnCall[]; faults: readonly DrawnFault[] } {
  const random = createRandom(seed)
  const calls = Array.from({ length: between(random, LEAST_CALLS, MOST_CALLS) }, () => ({
    kind: pick(random, CALL_KINDS),
    misbehavior: pick<Misbehavior>(random, ['none', 'none', 'none', 'none', 'none', 'hang_up', 'duplicates']),
    isSponsored: random() < 0.15,
    delayMs: between(random, 0, 1500),
  }))
  const drawOne = (): DrawnFault => {
    const kind = pick(random, kinds)
    return { kind, fault: drawBatchFault(random, kind, (name, stack) => kill(stack, name, 0)) }
  }
  const first = drawOne()
  const second = random() < 0.4 ? drawOne() : null
  return { calls, faults: second && second.fault.resource !== first.fault.resource ? [first, second] : [first] }
}

interface BatchTrialContext extends TrialContext<BatchKind> {
  /**
   * Payers without a call. Each call has its own, used in turn: the service lets a payer wait whose settlements reverted
   * several times within minutes.
   */
  readonly payers: Payer[]
}

/** How many payers a stack needs for `atOnce` trials, so that none prevents many payments. */
export function payersFor(atOnce: number): number {
  return 2 * atOnce * MOST_CALLS
}

/**
 * Pays several calls at the same moment while faults wait for the batch that they make, until every client has its final
 * answer. One trial at a time has its calls in progress and its faults; its clients recover while later ones go on.
 */
export async function runBatchTrial(context: BatchTrialContext, seed: number): Promise<Trial> {
  const { stack, resources } = context
  const { calls, faults } = draw(seed, context.kinds)
  const gate = Promise.withResolvers<void>()
  const started = calls.map((call) => startCall(context, call, gate.promise))
  const errors: string[] = []
  const met: { kind: BatchKind; sizes: readonly number[] }[] = []
  let healedAt = 0
  try {
    await Promise.all(started.map(({ signed }) => signed))
    await resources.hold('batch', async () => {
      const injected = faults.map(async ({ kind, fault }) => {
        met.push({ kind, sizes: (await fault.inject(stack, LEAST_IN_BATCH)) ?? [] })
      })
      gate.resolve()
      for (const outcome of await Promise.allSettled(injected))
        if (outcome.status === 'rejected') errors.push(String(outcome.reason))
      // A worker whose batch was refused for its size sends smaller ones for an hour.
      if (met.some(({ kind, sizes }) => kind === 'batch_too_large' && sizes.length > 0))
        for (const worker of WORKERS) await kill(stack, worker, 0)
      healedAt = Date.now()
    })
  } catch (error) {
    errors.push(String(error))
  } finally {
    gate.resolve()
  }
  await Promise.all(started.map(({ finished }) => finished))
  return {
    seed,
    faults: [
      ...faults.map(({ fault }) => fault.name),
      ...calls.flatMap(({ kind, misbehavior }) => (misbehavior === 'none' ? [] : `${kind}: ${misbehavior}`)),
    ],
    met,
    calls: started.map(({ record }) => record),
    recoveryMs: Math.max(0, Date.now() - healedAt),
    error: errors.length === 0 ? null : errors.join('; '),
  }
}

function startCall({ stack, freeSponsored, payers }: BatchTrialContext, drawn: DrawnCall, gate: Promise<void>) {
  const { kind, misbehavior, isSponsored, delayMs } = drawn
  const sponsored = isSponsored ? freeSponsored.pop() : undefined
  const payer = sponsored ?? payers.shift()
  if (!payer) throw new Error('more calls at the same time than payers')
  const hangingUp = new AbortController()
  const call = stack.caller.start({
    kind,
    payer,
    gate,
    ...(misbehavior === 'hang_up' ? { hangUp: hangingUp.signal } : {}),
    ...(misbehavior === 'duplicates' ? { duplicates: 2 } : {}),
  })
  const hangUp = async () => {
    await gate
    await delay(delayMs)
    hangingUp.abort()
  }
  const finished = Promise.all([call.finished, ...(misbehavior === 'hang_up' ? [hangUp()] : [])]).finally(() => {
    if (sponsored) freeSponsored.push(sponsored)
    else payers.push(payer)
  })
  return { record: call.record, signed: call.signed, finished }
}
