import { setTimeout as delay } from 'node:timers/promises'
import type { Payer } from '../../support/payer/payer.ts'
import type { CallKind } from '../calls/call-requests.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'

/** The calls of the honest payers during one phase. */
export interface HonestPhase {
  readonly calls: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Answers that turned an honest payer away, and calls that ended without a result. */
  readonly refusals: readonly string[]
}

const KINDS: readonly CallKind[] = ['chat', 'chat', 'message', 'transcription', 'speech', 'chat']
const PAUSE_MS = 500

/**
 * Lets every payer make one call after the other until `signal` aborts, at least `leastCalls` each. Returns how they
 * fared.
 */
export async function runHonestPayers(
  stack: CampaignStack,
  payers: readonly Payer[],
  signal: AbortSignal,
  leastCalls = 1,
): Promise<HonestPhase> {
  const times: number[] = []
  const refusals: string[] = []
  await Promise.all(
    payers.map(async (payer, index) => {
      // Spread over time, as independent callers are.
      await delay((PAUSE_MS * index) / payers.length)
      for (let call = index; !signal.aborted || call < index + leastCalls; call += 1) {
        const startedAt = performance.now()
        const record = await stack.caller.start({ kind: KINDS[call % KINDS.length] ?? 'chat', payer }).finished
        times.push(performance.now() - startedAt)
        refusals.push(...refusalsOf(record))
        await delay(PAUSE_MS)
      }
    }),
  )
  const sorted = times.toSorted((one, other) => one - other)
  const at = (share: number) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)
  return { calls: times.length, p50Ms: at(0.5), p99Ms: at(0.99), refusals }
}

/** Codes of answers after which the same signed request is served: the payer only waits. */
const WAITS = new Set(['request_in_progress', 'settlement_pending'])

function refusalsOf({ answers, outcome, callId }: CallRecord): string[] {
  const turnedAway = answers
    .slice(1)
    .filter(({ status, code }) => status !== 200 && !WAITS.has(code ?? ''))
    .map(({ status, code }) => `${callId}: ${status} ${code ?? ''}`)
  const [first] = answers
  if (first && first.status !== 402) turnedAway.push(`${callId}: its quote was answered ${first.status} ${first.code}`)
  return outcome === 'released' ? turnedAway : [...turnedAway, `${callId}: ended as ${outcome ?? 'unfinished'}`]
}
