import { setTimeout as delay } from 'node:timers/promises'
import type { ChainPayer } from '../../support/payer/chain-payer.ts'
import type { CallKind } from '../call-requests.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import { createRandom, pick } from '../random.ts'
import type { CampaignStack } from '../stack.ts'
import { mine } from './chain-faults.ts'
import { drawFault, type Fault, type FaultKind } from './faults.ts'
import type { Resources } from './resources.ts'

export interface Trial {
  readonly seed: number
  /** What was drawn, in words. */
  readonly faults: readonly string[]
  readonly calls: readonly CallRecord[]
  /** From the moment everything was healed to the last terminal answer; 0 when all had answers before. */
  readonly recoveryMs: number
  /** What went wrong with the trial itself. */
  readonly error: string | null
}

/** What all trials on one stack share. */
export interface Ground {
  readonly stack: CampaignStack
  readonly resources: Resources
  /** Payers with a gas-sponsored permit can have one open payment at a time. */
  readonly freeSponsored: ChainPayer[]
  readonly kinds: readonly FaultKind[]
}

const CALL_KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']

/** What a client or payer does that no honest one does, or no lucky one. */
type Mischief = 'none' | 'hang_up' | 'duplicates' | 'spends_all' | 'revokes' | 'burns_nonce'
const MISCHIEF: readonly Mischief[] = [
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
  readonly mischief: Mischief
  readonly isSponsored: boolean
  readonly startsAfterMs: number
  readonly strikesAfterMs: number
}

interface DrawnFault {
  readonly fault: Fault
  readonly strikesAfterMs: number
}

/** Everything about a trial but the machine's own timing follows from its seed. */
function draw(seed: number, { kinds, stack }: Ground): { calls: readonly DrawnCall[]; faults: readonly DrawnFault[] } {
  const random = createRandom(seed)
  const upTo = (highest: number) => Math.floor(random() * highest)
  const calls = Array.from({ length: 2 + upTo(3) }, () => ({
    kind: pick(random, CALL_KINDS),
    mischief: pick(random, MISCHIEF),
    isSponsored: random() < 0.2,
    startsAfterMs: upTo(150),
    strikesAfterMs: upTo(300),
  }))
  const faults = Array.from({ length: 1 + upTo(3) }, () => ({
    fault: drawFault(random, kinds, stack),
    strikesAfterMs: upTo(400),
  }))
  return { calls, faults }
}

/** Faults and calls begin together; the trial ends when every client has its last word. */
export async function runTrial(ground: Ground, seed: number): Promise<Trial> {
  const { calls, faults } = draw(seed, ground)
  const errors: string[] = []
  const note = (error: unknown) => errors.push(String(error))
  const records: CallRecord[] = []
  let lastAnswerAt = 0
  const called = calls.map(async (call) => {
    await delay(call.startsAfterMs)
    await makeCall(ground, call, records)
    lastAnswerAt = Date.now()
  })
  const struck = faults.map(async ({ fault, strikesAfterMs }) => {
    await delay(strikesAfterMs)
    await ground.resources.hold(fault.resource, () => fault.strike(ground.stack))
  })
  for (const outcome of await Promise.allSettled(struck)) if (outcome.status === 'rejected') note(outcome.reason)
  const healedAt = Date.now()
  for (const outcome of await Promise.allSettled(called)) if (outcome.status === 'rejected') note(outcome.reason)
  return {
    seed,
    faults: [
      ...faults.map(({ fault, strikesAfterMs }) => `${fault.name} (at ${strikesAfterMs} ms)`),
      ...calls.flatMap(({ kind, mischief }) => (mischief === 'none' ? [] : `${kind}: ${mischief}`)),
    ],
    calls: records,
    recoveryMs: Math.max(0, lastAnswerAt - healedAt),
    error: errors.length === 0 ? null : errors.join('; '),
  }
}

async function makeCall(ground: Ground, drawn: DrawnCall, records: CallRecord[]): Promise<void> {
  const { stack, freeSponsored } = ground
  const { kind, mischief, strikesAfterMs } = drawn
  const isTreacherous = mischief === 'spends_all' || mischief === 'revokes' || mischief === 'burns_nonce'
  const sponsored = drawn.isSponsored && !isTreacherous ? freeSponsored.pop() : undefined
  const payer = isTreacherous
    ? await ground.resources.hold('chain', () => stack.addPayer('approved'))
    : (sponsored ?? pick(Math.random, stack.payers.approved))
  const hangingUp = new AbortController()
  const call = stack.caller.start({
    kind,
    payer,
    ...(mischief === 'hang_up' ? { hangUp: hangingUp.signal } : {}),
    ...(mischief === 'duplicates' ? { duplicates: 2 } : {}),
  })
  records.push(call.record)
  const act = async () => {
    await call.signed
    await delay(strikesAfterMs)
    if (mischief === 'hang_up') hangingUp.abort()
    if (isTreacherous) await ground.resources.hold('chain', () => betray(ground, payer, call.record, mischief))
  }
  try {
    await Promise.all([call.finished, act()])
  } finally {
    if (sponsored) freeSponsored.push(sponsored)
  }
}

async function betray(
  { stack }: Ground,
  payer: ChainPayer,
  record: CallRecord,
  mischief: 'spends_all' | 'revokes' | 'burns_nonce',
): Promise<void> {
  if (mischief === 'burns_nonce') {
    const nonce = record.nonces.at(-1)
    if (nonce !== undefined) await payer.invalidateNonce(BigInt(nonce))
  } else if (mischief === 'revokes') {
    // His client signs a gas-sponsored permit at the next challenge, so the call can still be paid for.
    await payer.approve(0n)
  } else {
    await payer.spendAll()
    record.unpayableSince ??= Date.now()
  }
  // A later reorganization must not give back what was taken away.
  await mine(stack.info.rpcUrl, 3)
}
