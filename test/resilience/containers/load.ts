import { setTimeout as delay } from 'node:timers/promises'
import { type SteadyLoad, startSteadyLoad } from '../upgrade/steady-load.ts'
import type { Composition } from './composition.ts'

/** What happened to the calls that were under way while something was done to the system. */
export interface Outcome {
  readonly what: string
  /** Seconds until the containers were healthy again. */
  readonly recoverySeconds: number
  readonly underWay: number
  readonly released: number
  /** How often callers were told to repeat, or their connection broke, such as `503 overloaded`. */
  readonly repeats: Readonly<Record<string, number>>
  /** The longest of these calls, in seconds. */
  readonly longestSeconds: number
}

const CALLERS = 6
/** Calls that finish before and after each fault. */
const CALLS_AROUND = 12

/** Does something to the system while callers make calls, and returns what they met. */
export async function underLoad(
  composition: Composition,
  what: string,
  act: () => Promise<number>,
  callers = CALLERS,
  callsBefore = CALLS_AROUND,
): Promise<Outcome> {
  const before = composition.caller.records.length
  const load: SteadyLoad = startSteadyLoad(composition, callers)
  for (let left = callsBefore; left > 0; left -= CALLERS) await load.untilFinished(Math.min(left, CALLERS))
  const actedAt = Date.now()
  const underWay = composition.caller.records.slice(before).filter(({ outcome }) => outcome === null)
  const recoverySeconds = await act().catch((error: unknown) => {
    // Its callers end with the scenario.
    void load.stop()
    throw error
  })
  await Promise.race([load.untilFinished(CALLS_AROUND).catch(() => undefined), delay(60_000)])
  await load.stop()
  const repeats: Record<string, number> = {}
  for (const { answers } of composition.caller.records.slice(before))
    for (const { status, code } of answers)
      if (status !== 200 && status !== 402) repeats[`${status} ${code}`] = (repeats[`${status} ${code}`] ?? 0) + 1
  const ends = underWay.map(({ answers }) => answers.at(-1)?.receivedAt ?? Date.now())
  return {
    what,
    recoverySeconds,
    underWay: underWay.length,
    released: underWay.filter(({ outcome }) => outcome === 'released').length,
    repeats,
    longestSeconds: Math.max(0, ...ends.map((end) => (end - actedAt) / 1000)),
  }
}

export function describeOutcome({
  what,
  recoverySeconds,
  underWay,
  released,
  repeats,
  longestSeconds,
}: Outcome): string {
  const told = Object.entries(repeats).map(([answer, count]) => `${count} × ${answer}`)
  return `${what}: healthy after ${recoverySeconds.toFixed(1)} s; ${released} of ${underWay} calls under way released, the last after ${longestSeconds.toFixed(1)} s; repeats: ${told.join(', ') || 'none'}`
}
