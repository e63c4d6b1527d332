import { setTimeout as delay } from 'node:timers/promises'
import type { ServiceName } from '../../../infra/sandbox/sandbox-options.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { type Payer } from '../../support/payer/payer.ts'
import type { CallKind } from '../calls/call-requests.ts'
import type { StartedCall } from '../calls/paying-caller.ts'
import { pick } from '../calls/random.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import { setMining } from '../nemesis/chain-faults.ts'
import { putBatchFirst, refuseLarge, revertBatch } from '../stack/batch-trouble.ts'
import { type CampaignStack, LEASE_SECONDS } from '../stack/stack.ts'
import { type FaultPoint, rowName } from './fault-points.ts'

export interface Trial {
  readonly row: string
  readonly point: FaultPoint
  readonly seed: number
  /** Whether a process reached the point. */
  hit: boolean
  calls: readonly CallRecord[]
  /** The payments of the largest batch that one of its calls was ever in; 0 without batches. */
  largestBatch: number
  /** Time from the failure to the trial's last final answer; `null` when all clients had theirs before. */
  recoveryMs: number | null
  /** Error of the trial itself, which is not a verdict on the system. */
  error: string | null
}

/** State that trials on one stack share. */
export interface TrialGround {
  readonly stack: CampaignStack
  /** Only one process of each kind fails at a time, so that the other one can take over. */
  readonly turns: Readonly<Record<'api' | 'worker', <T>(work: () => Promise<T>) => Promise<T>>>
  /** Payers whose permit is not in use: a sponsored payer pays for one call at a time. */
  readonly idleSponsored: Payer[]
  /** Restarts in progress. */
  readonly restarts: Set<Promise<unknown>>
  /** How many payments must be in a batch at whose points a process fails. */
  readonly leastInBatch: number
}

export function createTrialGround(stack: CampaignStack, leastInBatch: number): TrialGround {
  return {
    stack,
    leastInBatch,
    turns: { api: createTurns(), worker: createTurns() },
    idleSponsored: [...stack.payers.sponsored],
    restarts: new Set(),
  }
}

/** Twice the lease of the campaign's workers, so that another one has taken over the job. */
const STOPPED_MS = 2 * LEASE_SECONDS * 1000
/** How long the node refuses large transactions after the first one. */
const REFUSING_MS = 1500
/** How long the keys are off the contract's list, in which a batch reverts. */
const UNLISTED_MS = 200
const MOST_STARTS = 5
const BETWEEN_STARTS_MS = 1000
const HIT_POLL_MS = 5
/**
 * Sweepers reach points after the last answer within this time; slow points additionally wait for the ledger's timer.
 */
const LATE_HIT_MS = PATIENCE_MS
/** A batch reaches its points before its calls are finished, or right afterwards. */
const LATE_BATCH_HIT_MS = 3000
/** How often new calls are made when those before them shared no batch. */
const MOST_ROUNDS = 3
const SLOW_HIT_MS = 2 * PATIENCE_MS
/** Number of calls of a trial. */
const CALLS: readonly number[] = [1, 1, 2, 3]
/** Of one whose payments are to share a batch; the first of them goes alone, from each worker. */
const CALLS_TOGETHER: readonly number[] = [6, 7, 8]
/** Quick ones, so that they are ready at about the same time. */
const KINDS_TOGETHER: readonly CallKind[] = ['chat', 'message']
const OTHER_KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']

/**
 * Runs one trial: a process fails at the point during paid calls and is restarted immediately; the clients continue
 * until each has its final answer. Returns these answers; the verdict is the checker's.
 */
export async function runTrial(
  context: TrialGround,
  point: FaultPoint,
  seed: number,
  random: () => number,
): Promise<Trial> {
  let trial = await runRound(context, point, seed, random)
  const rounds = point.together && context.leastInBatch > 0 ? MOST_ROUNDS : 1
  for (let round = 1; !trial.hit && trial.error === null && round < rounds; round++) {
    const next = await runRound(context, point, seed, random)
    trial = { ...next, calls: [...trial.calls, ...next.calls] }
  }
  return trial
}

async function runRound(context: TrialGround, point: FaultPoint, seed: number, random: () => number): Promise<Trial> {
  const trial: Trial = {
    row: rowName(point),
    point,
    seed,
    hit: false,
    calls: [],
    largestBatch: 0,
    recoveryMs: null,
    error: null,
  }
  const calls = chooseCalls(context, point, random)
  const gate = Promise.withResolvers<void>()
  try {
    const { stack, turns } = context
    const start = () => calls.map(({ kind, payer }) => stack.caller.start({ kind, payer, gate: gate.promise }))
    // The price is requested before the turn when the point comes after it.
    let started = point.armedBefore === 'payment' ? start() : []
    await Promise.all(started.map(({ signed }) => signed))
    const failedAt = await turns[processOf(point)](async () => {
      try {
        await arm(context, point)
        if (point.armedBefore === 'challenge') started = start()
        gate.resolve()
        const [failedAt] = await Promise.all([untilFailed(context, point, started), makeTrouble(context, point)])
        return failedAt
      } finally {
        if (point.chainPaused) await setMining(stack.info.rpcUrl, true)
      }
    })
    trial.hit = failedAt !== null
    trial.calls = started.map(({ record }) => record)
    await Promise.all(started.map(({ finished }) => finished))
    trial.largestBatch = await readLargestBatch(stack, trial.calls)
    trial.recoveryMs = failedAt === null ? null : lastAnswerAfter(started, failedAt)
  } catch (error) {
    trial.error = error instanceof Error ? error.message : String(error)
  } finally {
    gate.resolve()
    for (const { payer, isSponsored } of calls) if (isSponsored) context.idleSponsored.push(payer)
  }
  return trial
}

interface ChosenCall {
  readonly kind: CallKind
  readonly payer: Payer
  readonly isSponsored: boolean
}

/**
 * Returns the calls of a trial: the first leads to the point, the others are random. A quarter has a payer without
 * approval.
 */
function chooseCalls({ stack, idleSponsored }: TrialGround, point: FaultPoint, random: () => number): ChosenCall[] {
  const { together = false } = point
  return Array.from({ length: pick(random, together ? CALLS_TOGETHER : CALLS) }, (_, index) => {
    const others = together ? KINDS_TOGETHER : OTHER_KINDS
    const kind = pick(random, index === 0 ? point.kinds.filter((one) => !together || others.includes(one)) : others)
    const wantsPermit = random() < 0.25
    const sponsored = wantsPermit && index === 0 ? idleSponsored.pop() : undefined
    return { kind, payer: sponsored ?? pick(random, stack.payers.approved), isSponsored: sponsored !== undefined }
  })
}

/** Batches that a payment left count as well. */
async function readLargestBatch(stack: CampaignStack, calls: readonly CallRecord[]): Promise<number> {
  const [row] = await stack.sql<{ size: number }>(
    `SELECT coalesce(max(size), 0) AS size FROM jobs JOIN settlements ON job_id = jobs.id
       JOIN settlement_batches AS batches ON batches.id = batch_id OR batches.id = ANY(earlier_batches)
     WHERE idempotency_key = ANY($1)`,
    [calls.map(({ idempotencyKey }) => idempotencyKey)],
  )
  return row?.size ?? 0
}

function processOf(point: FaultPoint): 'api' | 'worker' {
  return point.name.startsWith('api.') ? 'api' : 'worker'
}

async function arm({ stack, leastInBatch }: TrialGround, point: FaultPoint): Promise<void> {
  const { points } = stack
  if (point.upstream) await stack.setFaults([point.upstream])
  if (point.chainPaused) await setMining(stack.info.rpcUrl, false)
  if (point.after !== undefined) points.arm(point.after, 'throw')
  points.arm(point.name, point.action, point.together ? leastInBatch : undefined)
}

async function makeTrouble({ stack, leastInBatch }: TrialGround, point: FaultPoint): Promise<void> {
  const { trouble, chainPaused } = point
  if (chainPaused && leastInBatch > 0) await putBatchFirst(stack, leastInBatch, PATIENCE_MS)
  if (trouble === 'reverts') await revertBatch(stack, UNLISTED_MS, leastInBatch)
  if (trouble === 'too_large') await refuseLarge(stack, REFUSING_MS, PATIENCE_MS)
}

/**
 * Waits for the failure and restarts the process. Returns the time of the failure, or `null` when no process got there.
 */
async function untilFailed(
  context: TrialGround,
  point: FaultPoint,
  started: readonly StartedCall[],
): Promise<number | null> {
  const { points } = context.stack
  let areFinished = false
  void Promise.all(started.map(({ finished }) => finished)).then(() => (areFinished = true))
  let giveUpAt = Number.POSITIVE_INFINITY
  for (;;) {
    const pid = points.hitBy(point.name)
    if (pid !== null) {
      const failedAt = Date.now()
      await recoverProcess(context, point, pid)
      return failedAt
    }
    if (areFinished && giveUpAt === Number.POSITIVE_INFINITY) giveUpAt = Date.now() + lateHitMs(context, point)
    if (Date.now() > giveUpAt && points.disarm(point.name)) {
      if (point.after !== undefined) points.disarm(point.after)
      return null
    }
    await delay(HIT_POLL_MS)
  }
}

function lateHitMs({ leastInBatch }: TrialGround, { slow, together }: FaultPoint): number {
  if (together && leastInBatch > 0) return LATE_BATCH_HIT_MS
  return slow ? SLOW_HIT_MS : LATE_HIT_MS
}

async function recoverProcess({ stack, restarts }: TrialGround, point: FaultPoint, pid: number): Promise<void> {
  if (point.action === 'throw') return
  if (point.action === 'stop') {
    await delay(STOPPED_MS)
    process.kill(pid, 'SIGCONT')
    return
  }
  const name = nameOf(stack, pid)
  const restart = startAgain(stack, name)
  restarts.add(restart)
  await restart
  restarts.delete(restart)
}

/** Starts a process as a supervisor does: a start fails while another trial has the keys off the contract's list. */
async function startAgain(stack: CampaignStack, name: ServiceName): Promise<void> {
  for (let start = 1; ; start += 1) {
    try {
      await stack.restart(name)
      return
    } catch (error) {
      if (start === MOST_STARTS) throw error
      await delay(BETWEEN_STARTS_MS)
    }
  }
}

function nameOf(stack: CampaignStack, pid: number): ServiceName {
  const names = Object.keys(stack.info.pids).filter((name): name is ServiceName => name !== 'chain')
  const found = names.find((name) => stack.pidOf(name) === pid)
  if (found === undefined) throw new Error(`no process of the sandbox had the id ${pid}`)
  return found
}

function lastAnswerAfter(started: readonly StartedCall[], failedAt: number): number | null {
  const answeredAt = Math.max(...started.map(({ record }) => record.answers.at(-1)?.receivedAt ?? 0))
  return answeredAt > failedAt ? answeredAt - failedAt : null
}

/** Runs tasks one after another, in their order of arrival. */
function createTurns(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const turn = last.then(work)
    last = turn.catch(() => undefined)
    return turn
  }
}
