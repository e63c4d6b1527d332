import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import { isConnectionFailure } from '../../connection-failure.ts'
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
  /** What committed transactions of this process had reserved when the reading began, so that it is in the sums. */
  readonly committedBefore: bigint
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
export interface NewPayersLimit {
  /**
   * Runs one transaction. What it reserves counts while it runs, as no reading sees what is not committed, and after it
   * was committed until the next reading, which sees what it wrote. What it did not write is given back then at the latest.
   */
  inTransaction<T>(work: (newPayers: NewPayers) => Promise<T>): Promise<T>
}

/** The limit, for one transaction. */
export interface NewPayers {
  /** Returns whether this payer is known to be established, so that their settlements need not be read. */
  isEstablished(payer: string): boolean
  /** Payers whose settled charges add up to less than this are new. */
  readonly establishedFrom: AtomicAmount
  /** Records that the payer's settled charges reach `establishedFrom`. */
  recordEstablished(payer: string): void
  /** Reserves a new payer's payment and returns `null` when it fits the limit, else returns the seconds until it may. */
  reserve(sql: Sql, maximum: AtomicAmount): Promise<number | null>
}

export function createNewPayersLimit(options: NewPayersOptions): NewPayersLimit {
  const { establishedFrom, limit, windowSeconds, nowMs } = options
  const established = new Set<string>()
  /** What running transactions of this process have reserved. */
  let pending = 0n
  /** What committed ones had reserved, since the process started. */
  let committed = 0n
  let latest: Reading | null = null

  async function read(sql: Sql): Promise<Reading> {
    const started = { readAtMs: nowMs(), committedBefore: committed }
    const reading = { ...started, ...(await readNewPayerExposure(sql, windowSeconds)) }
    if (latest === null || latest.readAtMs <= reading.readAtMs) latest = reading
    return reading
  }

  function fits({ open, lasting, committedBefore }: Reading, maximum: AtomicAmount): boolean {
    const total = open + lasting + pending + committed - committedBefore
    return total === 0n || total + maximum <= limit
  }

  function recent(maximum: AtomicAmount): Reading | null {
    if (latest === null) return null
    const life = fits(latest, maximum) ? READING_LIFE_MS : REFUSAL_READING_LIFE_MS
    return nowMs() - latest.readAtMs < life ? latest : null
  }

  function waitSeconds({ lasting, oldestLeavesInSeconds }: Reading, maximum: AtomicAmount): number {
    return lasting + maximum > limit
      ? Math.max(OPEN_WORK_RETRY_SECONDS, oldestLeavesInSeconds)
      : OPEN_WORK_RETRY_SECONDS
  }

  const everyTransaction = {
    establishedFrom,
    isEstablished: (payer: string) => establishedFrom <= 0n || established.has(payer),
    recordEstablished: (payer: string) => {
      const [oldest] = established
      if (oldest !== undefined && established.size >= REMEMBERED_PAYERS) established.delete(oldest)
      established.add(payer)
    },
  }
  return {
    inTransaction: async (work) => {
      let reserved = 0n
      let own: Reading | null = null
      const reserve = async (sql: Sql, maximum: AtomicAmount) => {
        // One reading at most, as other payers wait for the transaction.
        const reading = recent(maximum) ?? own ?? (own = await read(sql))
        // Judged and reserved without an await in between: nobody else reserves.
        if (!fits(reading, maximum)) return waitSeconds(reading, maximum)
        reserved += maximum
        pending += maximum
        return null
      }
      try {
        const result = await work({ ...everyTransaction, reserve })
        committed += reserved
        return result
      } catch (error) {
        // Without an answer of the database it may be committed.
        if (isConnectionFailure(error)) committed += reserved
        throw error
      } finally {
        pending -= reserved
      }
    },
  }
}
