import { setTimeout as delay } from 'node:timers/promises'
import { type Payer } from '../../support/payer/payer.ts'
import type { CallKind } from '../calls/call-requests.ts'
import { createRandom, pick } from '../calls/random.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { isBatchKind } from './batch-faults.ts'
import { mine } from './chain-faults.ts'
import type { Fault } from './fault.ts'
import { drawFault, type FaultKind } from './faults.ts'
import type { Resources } from './resources.ts'

export interface Trial {
  readonly seed: number
  /** Descriptions of the drawn faults. */
  readonly faults: readonly string[]
  /** The batches that faults of batches met, by their numbers of payments. */
  readonly met: readonly { readonly kind: FaultKind; readonly sizes: readonly number[] }[]
  readonly calls: readonly CallRecord[]
  /** Time from healing to the last final answer; 0 when all clients had theirs before. */
  readonly recoveryMs: number
  /** Error of the trial itself. */
  readonly error: string | null
}

/** State that trials on one stack share. */
export interface TrialContext<Kind extends FaultKind = FaultKind> {
  readonly stack: CampaignStack
  readonly resources: Resources
  /** Payers with a gas-sponsoring permit, who can have one open payment at a time. */
  readonly freeSponsored: Payer[]
  readonly kinds: readonly Kind[]
}

const CALL_KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']

/** Misbehavior or misfortune of a client or payer. */
type Misbehavior = 'none' | 'hang_up' | 'duplicates' | 'spends_all' | 'revokes' | 'burns_nonce'
const MISBEHAVIORS: readonly Misbehavior[] = [
  ...Array.from({ length: 8 }, () => 'none' as const),
  'hang_up',
  'hang_up',
  'duplicates',
  'duplicates',
  'spends_all',
  'revokes',
  'burns_nonce',
]

interface DrawnCall {
  readonly kind: CallKind
  readonly misbehavior: Misbehavior
  readonly isSponsored: boolean
  readonly startDelayMs: number
  readonly delayMs: number
}

interface DrawnFault {
  readonly fault: Fault
  readonly delayMs: number
}

/** Draws a trial: its seed determines everything but the machine's timing. */
function draw(
  seed: number,
  { kinds, stack }: TrialContext,
): { calls: readonly DrawnCall[]; faults: readonly DrawnFault[] } {
  const random = createRandom(seed)
  const upTo = (highest: number) => Math.floor(random() * highest)
  // With batches, calls come close together: that is what makes batches of several payments.
  const calls = Array.from({ length: kinds.some(isBatchKind) ? 3 + upTo(5) : 2 + upTo(3) }, () => ({
    kind: pick(random, CALL_KINDS),
    misbehavior: pick(random, MISBEHAVIORS),
    isSponsored: random() < 0.2,
    startDelayMs: upTo(150),
    delayMs: upTo(300),
  }))
  const faults = Array.from({ length: 1 + upTo(3) }, () => ({
    fault: drawFault(random, kinds, stack),
    delayMs: upTo(400),
  }))
  return { calls, faults }
}

/** Runs faults and calls concurrently, until every client has its final answer. */
export async function runTrial(context: TrialContext, seed: number): Promise<Trial> {
  const { calls, faults } = draw(seed, context)
  const errors: string[] = []
  const note = (error: unknown) => errors.push(String(error))
  const records: CallRecord[] = []
  let lastAnswerAt = 0
  const called = calls.map(async (call) => {
    await delay(call.startDelayMs)
    await makeCall(context, call, records)
    lastAnswerAt = Date.now()
  })
  const injected = faults.map(async ({ fault, delayMs }) => {
    await delay(delayMs)
    await context.resources.hold(fault.resource, () => fault.inject(context.stack, 1))
  })
  for (const outcome of await Promise.allSettled(injected)) if (outcome.status === 'rejected') note(outcome.reason)
  const healedAt = Date.now()
  for (const outcome of await Promise.allSettled(called)) if (outcome.status === 'rejected') note(outcome.reason)
  return {
    seed,
    faults: [
      ...faults.map(({ fault, delayMs }) => `${fault.name} (at ${delayMs} ms)`),
      ...calls.flatMap(({ kind, misbehavior }) => (misbehavior === 'none' ? [] : `${kind}: ${misbehavior}`)),
    ],
    met: [],
    calls: records,
    recoveryMs: Math.max(0, lastAnswerAt - healedAt),
    error: errors.length === 0 ? null : errors.join('; '),
  }
}

async function makeCall(context: TrialContext, drawn: DrawnCall, records: CallRecord[]): Promise<void> {
  const { stack, freeSponsored } = context
  const { kind, misbehavior, delayMs } = drawn
  const isDishonest = misbehavior === 'spends_all' || misbehavior === 'revokes' || misbehavior === 'burns_nonce'
  const sponsored = drawn.isSponsored && !isDishonest ? freeSponsored.pop() : undefined
  const payer = isDishonest
    ? await context.resources.hold('chain', async () => {
        const added = await stack.addPayer('approved')
        // A later reorganization must not take the funds back.
        await mine(stack.info.rpcUrl, 3)
        return added
      })
    : (sponsored ?? pick(Math.random, stack.payers.approved))
  const hangingUp = new AbortController()
  const call = stack.caller.start({
    kind,
    payer,
    ...(misbehavior === 'hang_up' ? { hangUp: hangingUp.signal } : {}),
    ...(misbehavior === 'duplicates' ? { duplicates: 2 } : {}),
  })
  records.push(call.record)
  const act = async () => {
    await call.signed
    await delay(delayMs)
    if (misbehavior === 'hang_up') hangingUp.abort()
    if (isDishonest) await context.resources.hold('chain', () => misbehave(context, payer, call.record, misbehavior))
  }
  try {
    await Promise.all([call.finished, act()])
  } finally {
    if (sponsored) freeSponsored.push(sponsored)
  }
}

async function misbehave(
  { stack }: TrialContext,
  payer: Payer,
  record: CallRecord,
  misbehavior: 'spends_all' | 'revokes' | 'burns_nonce',
): Promise<void> {
  record.hindersSettlement = true
  if (misbehavior === 'burns_nonce') {
    const nonce = record.nonces.at(-1)
    if (nonce !== undefined) await payer.invalidateNonce(BigInt(nonce))
  } else if (misbehavior === 'revokes') {
    // The client signs a gas-sponsoring permit for the next challenge, so the call can still be paid.
    await payer.approve(0n)
  } else {
    await payer.spendAll()
    record.unpayableSince ??= Date.now()
  }
  // A later reorganization must not undo it.
  await mine(stack.info.rpcUrl, 3)
}
