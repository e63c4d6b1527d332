import { setTimeout as delay } from 'node:timers/promises'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import type { ServiceName } from '../../../infra/sandbox/process-plan.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import type { ChainPayer } from '../../support/payer/chain-payer.ts'
import type { CallKind } from '../call-requests.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import type { StartedCall } from '../paying-caller.ts'
import { pick } from '../random.ts'
import { type CampaignStack, LEASE_SECONDS } from '../stack.ts'
import { type FaultPoint, rowName } from './fault-points.ts'

export interface Trial {
  readonly row: string
  readonly point: FaultPoint
  readonly seed: number
  /** Whether some process got to the point. */
  hit: boolean
  calls: readonly CallRecord[]
  /** From the failure to the last terminal answer of the trial's clients; `null` when they had theirs before. */
  recoveryMs: number | null
  /** What went wrong with the trial itself, which is no verdict on the system. */
  error: string | null
}

/** What trials on one stack share. */
export interface TrialGround {
  readonly stack: CampaignStack
  /** One process of each kind fails at a time, so that the other one is there to take over. */
  readonly turns: Readonly<Record<'api' | 'worker', <T>(work: () => Promise<T>) => Promise<T>>>
  /** Payers whose permit is not in use; a sponsored payer pays for one call at a time. */
  readonly idleSponsored: ChainPayer[]
  /** Starts of processes that have not succeeded yet. */
  readonly restarts: Set<Promise<unknown>>
}

export function createTrialGround(stack: CampaignStack): TrialGround {
  return {
    stack,
    turns: { api: createTurns(), worker: createTurns() },
    idleSponsored: [...stack.payers.sponsored],
    restarts: new Set(),
  }
}

/** Twice the lease of the campaign's workers, so that another one has taken the job over. */
const STOPPED_MS = 2 * LEASE_SECONDS * 1000
const HIT_POLL_MS = 5
/** Points behind the clients' last answer are reached by sweepers within this time; the slow ones wait for the ledger's timer as well. */
const LATE_HIT_MS = PATIENCE_MS
const SLOW_HIT_MS = 2 * PATIENCE_MS
/** How many calls one trial makes. */
const CALLS: readonly number[] = [1, 1, 2, 3]
const OTHER_KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']

/**
 * One trial: paid calls are on their way when a process fails at the point. It comes back at once, the clients go on until
 * each has its last word, and that word is all this returns; the verdict is the checker's.
 */
export async function runTrial(
  ground: TrialGround,
  point: FaultPoint,
  seed: number,
  random: () => number,
): Promise<Trial> {
  const trial: Trial = { row: rowName(point), point, seed, hit: false, calls: [], recoveryMs: null, error: null }
  const calls = chooseCalls(ground, point, random)
  const gate = Promise.withResolvers<void>()
  try {
    const { stack, turns } = ground
    const start = () => calls.map(({ kind, payer }) => stack.caller.start({ kind, payer, gate: gate.promise }))
    // The price is asked for outside of the turn where the point lies behind it.
    let started = point.armedBefore === 'payment' ? start() : []
    await Promise.all(started.map(({ signed }) => signed))
    const failedAt = await turns[processOf(point)](async () => {
      try {
        await arm(stack, point)
        if (point.armedBefore === 'challenge') started = start()
        gate.resolve()
        return await untilFailed(ground, point, started)
      } finally {
        if (point.chainPaused) await resumeMining(stack)
      }
    })
    trial.hit = failedAt !== null
    trial.calls = started.map(({ record }) => record)
    await Promise.all(started.map(({ finished }) => finished))
    trial.recoveryMs = failedAt === null ? null : lastAnswerAfter(started, failedAt)
  } catch (error) {
    trial.error = error instanceof Error ? error.message : String(error)
  } finally {
    gate.resolve()
    for (const { payer, isSponsored } of calls) if (isSponsored) ground.idleSponsored.push(payer)
  }
  return trial
}

interface ChosenCall {
  readonly kind: CallKind
  readonly payer: ChainPayer
  readonly isSponsored: boolean
}

/** The first call leads to the point; others are anything. A quarter of the trials has a payer without an approval. */
function chooseCalls({ stack, idleSponsored }: TrialGround, point: FaultPoint, random: () => number): ChosenCall[] {
  return Array.from({ length: pick(random, CALLS) }, (_, index) => {
    const kind = pick(random, index === 0 ? point.kinds : OTHER_KINDS)
    const wantsPermit = random() < 0.25
    const sponsored = wantsPermit && index === 0 ? idleSponsored.pop() : undefined
    return { kind, payer: sponsored ?? pick(random, stack.payers.approved), isSponsored: sponsored !== undefined }
  })
}

function processOf(point: FaultPoint): 'api' | 'worker' {
  return point.name.startsWith('api.') ? 'api' : 'worker'
}

async function arm(stack: CampaignStack, point: FaultPoint): Promise<void> {
  const { points } = stack
  if (point.upstream) await stack.setFaults([point.upstream])
  if (point.chainPaused) await callRpc(stack.info.rpcUrl, 'evm_setAutomine', [false])
  if (point.after !== undefined) points.arm(point.after, 'throw')
  points.arm(point.name, point.action)
}

async function resumeMining({ info }: CampaignStack): Promise<void> {
  await callRpc(info.rpcUrl, 'evm_setAutomine', [true])
  await callRpc(info.rpcUrl, 'evm_mine', [])
}

/** Waits for the failure and brings the process back; the time of the failure, or `null` when nobody got there. */
async function untilFailed(
  ground: TrialGround,
  point: FaultPoint,
  started: readonly StartedCall[],
): Promise<number | null> {
  const { points } = ground.stack
  let areFinished = false
  void Promise.all(started.map(({ finished }) => finished)).then(() => (areFinished = true))
  let giveUpAt = Number.POSITIVE_INFINITY
  for (;;) {
    const pid = points.hitBy(point.name)
    if (pid !== null) {
      const failedAt = Date.now()
      await bringBack(ground, point, pid)
      return failedAt
    }
    if (areFinished && giveUpAt === Number.POSITIVE_INFINITY)
      giveUpAt = Date.now() + (point.slow ? SLOW_HIT_MS : LATE_HIT_MS)
    if (Date.now() > giveUpAt && points.disarm(point.name)) {
      if (point.after !== undefined) points.disarm(point.after)
      return null
    }
    await delay(HIT_POLL_MS)
  }
}

async function bringBack({ stack, restarts }: TrialGround, point: FaultPoint, pid: number): Promise<void> {
  if (point.action === 'throw') return
  if (point.action === 'stop') {
    await delay(STOPPED_MS)
    process.kill(pid, 'SIGCONT')
    return
  }
  const name = nameOf(stack, pid)
  const restart = stack.restart(name)
  restarts.add(restart)
  await restart
  restarts.delete(restart)
}

function nameOf(stack: CampaignStack, pid: number): ServiceName {
  const names = Object.keys(stack.info.pids).filter((name): name is ServiceName => name !== 'chain')
  const found = names.find((name) => stack.pidOf(name) === pid)
  if (found === undefined) throw new Error(`nothing of the sandbox had the process id ${pid}`)
  return found
}

function lastAnswerAfter(started: readonly StartedCall[], failedAt: number): number | null {
  const answeredAt = Math.max(...started.map(({ record }) => record.answers.at(-1)?.receivedAt ?? 0))
  return answeredAt > failedAt ? answeredAt - failedAt : null
}

/** Runs one piece of work after the other, in the order they came. */
function createTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const turn = last.then(work)
    last = turn.catch(() => undefined)
    return turn
  }
}
