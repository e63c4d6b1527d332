import { randomUUID } from 'node:crypto'
import type { Payer } from '../../support/payer/payer.ts'
import { newCall, payAll, signCalls } from '../measuring/paid-load.ts'
import { mapValues, readCpuMs } from '../measuring/process-usage.ts'
import { sendLoad } from '../measuring/sdk-packages.ts'
import { median } from '../measuring/statistics.ts'
import { type Side, type SideName, untilFinished } from './side.ts'

/** What one round of one side came to. */
export interface Round {
  readonly perSecond: number
  /** Processor time of a call by process. */
  readonly cpuMs: Readonly<Record<keyof Side['pids'], number>>
}

/** A kind of load, measured in rounds in which both sides take turns. */
export interface Comparison {
  readonly what: string
  readonly rounds: Readonly<Record<SideName, readonly Round[]>>
}

const CONCURRENCY = 16
const CONNECTIONS = 32

/** Runs a load on both sides in turn; the side that begins changes with each round. The first round is not counted. */
export async function compare(
  what: string,
  sides: readonly Side[],
  rounds: number,
  load: (side: Side) => Promise<Round>,
): Promise<Comparison> {
  const all: Record<SideName, Round[]> = { empty: [], full: [] }
  for (let round = -1; round < rounds; round++)
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const measured = await load(side)
      if (round >= 0) all[side.name].push(measured)
    }
  return { what, rounds: all }
}

/** Pays for chats, 16 at once. */
export async function pay(side: Side, payers: readonly Payer[], calls: number): Promise<Round> {
  const { baseUrl } = side.sandbox.info
  const signed = await signCalls(baseUrl, payers, calls)
  await untilFinished(side)
  const before = readCpuMs(side.pids)
  const { perSecond } = await payAll(baseUrl, signed, CONCURRENCY)
  return { perSecond, cpuMs: perCall(before, readCpuMs(side.pids), calls) }
}

/** Asks for prices, each of a new call. */
export async function askPrices(side: Side, seconds: number): Promise<Round> {
  const before = readCpuMs(side.pids)
  const result = await sendLoad({
    url: `${side.sandbox.info.baseUrl}/v1/chat/completions`,
    connections: CONNECTIONS,
    duration: seconds,
    method: 'POST',
    requests: [{ setupRequest: (request) => ({ ...request, ...newCall(randomUUID()) }) }],
  })
  const after = readCpuMs(side.pids)
  const answers = result.statusCodeStats?.['402']?.count ?? 0
  if (result.errors > 0 || answers !== result.requests.total)
    throw new Error(`unexpected answers: ${JSON.stringify(result.statusCodeStats)}, ${result.errors} errors`)
  return { perSecond: answers / result.duration, cpuMs: perCall(before, after, answers) }
}

function perCall(before: Round['cpuMs'], after: Round['cpuMs'], calls: number): Round['cpuMs'] {
  return mapValues(after, (ms, name) => (ms - before[name]) / calls)
}

/** Returns the middle of the rounds' ratios, full ÷ empty: each of rounds that followed each other. */
export function rateRatio({ rounds }: Comparison): number {
  return median(rounds.full.map(({ perSecond }, round) => perSecond / (rounds.empty[round]?.perSecond ?? Number.NaN)))
}

/** Returns the processor time of a call in all processes but the client, the middle of all rounds. */
export function cpuMs({ rounds }: Comparison, side: SideName, of?: keyof Side['pids']): number {
  return median(
    rounds[side].map((round) => {
      const { api, worker, postgres, chain, redis } = round.cpuMs
      return of === undefined ? api + worker + postgres + chain + redis : round.cpuMs[of]
    }),
  )
}

export function rowsOf(comparison: Comparison) {
  return (['empty', 'full'] as const).map((side) => ({
    load: comparison.what,
    ledger: side,
    'calls/s': median(comparison.rounds[side].map(({ perSecond }) => perSecond)),
    'CPU ms': cpuMs(comparison, side),
    'of postgres': cpuMs(comparison, side, 'postgres'),
    'of api': cpuMs(comparison, side, 'api'),
    'of worker': cpuMs(comparison, side, 'worker'),
  }))
}
