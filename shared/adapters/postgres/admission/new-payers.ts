import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { type NewPayerExposure, readNewPayerExposure } from '../new-payer-exposure.ts'
import type { Sql } from '../pool.ts'

/**
 * How old a reading of the sums may be when a payment is accepted on it. What this process accepts in the meantime is
 * added; what other processes accept is not, so together they may exceed the limit by that much.
 */
const READING_LIFE_MS = 1000
/** How old it may be when one is refused: during an attack the sums run over many rows, and refusals come often. */
const REFUSAL_READING_LIFE_MS = 100
/** An established payer stays established; forgetting one costs a sum over some of their settlements. */
const REMEMBERED_PAYERS = 100_000
/** Work in progress settles within seconds. */
const OPEN_WORK_RETRY_SECONDS = 2

interface Reading extends NewPayerExposure {
  readonly readAtMs: number
  /** What this process had accepted when the reading began. */
  readonly acceptedBefore: bigint
}

export interface NewPayersOptions {
  /** Payers whose settled charges add up to less than this are new. */
  readonly establishedFrom: AtomicAmount
  /** The limit of all new payers together. */
  readonly limit: AtomicAmount
  readonly windowSeconds: number
  readonly nowMs: () => number
}

/**
 * The shared limit of new payers: a wallet costs nothing, so what payers without a history may cost the service is
 * bounded for all of them together.
 */
export interface NewPayers {
  /** Returns whether this payer is known to be established, so that their settlements need not be read. */
  isEstablished(payer: string): boolean
  /** Payers whose settled charges add up to less than this are new. */
  readonly establishedFrom: AtomicAmount
  /** Records that the payer's settled charges reach `establishedFrom`. */
  recordEstablished(payer: string): void
  /** Returns `null` when a new payer's payment fits the limit, else the seconds until it may. */
  reserve(sql: Sql, maximum: AtomicAmount): Promise<number | null>
}

export function createNewPayers({ establishedFrom, limit, windowSeconds, nowMs }: NewPayersOptions): NewPayers {
  const established = new Set<string>()
  /** What this process has accepted since it started. */
  let accepted = 0n
  let latest: Reading | null = null

  async function read(sql: Sql): Promise<Reading> {
    const started = { readAtMs: nowMs(), acceptedBefore: accepted }
    const reading = { ...started, ...(await readNewPayerExposure(sql, windowSeconds)) }
    if (latest === null || latest.readAtMs <= reading.readAtMs) latest = reading
    return reading
  }

  function fits({ open, lasting, acceptedBefore }: Reading, maximum: AtomicAmount): boolean {
    const total = open + lasting + accepted - acceptedBefore
    return total === 0n || total + maximum <= limit
  }

  function recent(maximum: AtomicAmount): Reading | null {
    if (latest === null) return null
    const life = fits(latest, maximum) ? READING_LIFE_MS : REFUSAL_READING_LIFE_MS
    return nowMs() - latest.readAtMs < life ? latest : null
  }

  return {
    establishedFrom,
    isEstablished: (payer) => establishedFrom <= 0n || established.has(payer),
    recordEstablished: (payer) => {
      const [oldest] = established
      if (oldest !== undefined && established.size >= REMEMBERED_PAYERS) established.delete(oldest)
      established.add(payer)
    },
    reserve: async (sql, maximum) => {
      const reading = recent(maximum) ?? (await read(sql))
      if (!fits(reading, maximum))
        return reading.lasting + maximum > limit
          ? Math.max(OPEN_WORK_RETRY_SECONDS, reading.oldestLeavesInSeconds)
          : OPEN_WORK_RETRY_SECONDS
      accepted += maximum
      return null
    },
  }
}
