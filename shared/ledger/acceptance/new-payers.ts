import { LRUCache } from 'lru-cache'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { type NewPayerExposure, type NewPayerExposures, readNewPayerExposure } from '../new-payer-exposure.ts'
import type { Sql } from '../pool.ts'

/** What a network may take of what the others have left of the limit. */
const SHARE_OF_NETWORK = 10n
/** A refusal is repeated this long without a statement: during an attack the sums run over many rows, one at a time. */
const REFUSAL_LIFE_MS = 1000
const REMEMBERED_NETWORKS = 10_000
/** Payers whose settled charges are remembered; forgetting one costs a sum over some of their settlements. */
const REMEMBERED_PAYERS = 100_000
/** Work in progress settles within seconds. */
export const OPEN_WORK_RETRY_SECONDS = 2
/** How long a transaction waits for the lock, and how long PostgreSQL waits for one that holds it: a process may freeze. */
const LONGEST_WAIT = '5s'

/** A payment that its payer's settled charges do not cover. */
export interface UncoveredPayment {
  readonly network: string
  readonly maximum: AtomicAmount
  /** The highest price of one call: a network may have that much in any case, while the limit lasts. */
  readonly highestPrice: AtomicAmount
}

/** Why the limit has no place for a payment: what its network may have, or what all may have, is in use. */
export interface LimitRefusal {
  readonly limit: 'network' | 'all'
  readonly retryAfterSeconds: number
}

/**
 * The limit of what payments may have open and lost within a day that are not covered by what their payers have paid: a
 * wallet costs nothing, so it holds for all of them together. Each network may have a tenth of what the others left, so
 * that thefts use up the share of the networks that they come from.
 */
export interface NewPayersLimit {
  /** Returns the limit for one transaction, which accepts payments from these networks only. */
  forTransaction(networks: readonly string[]): NewPayers
}

/** What a payer has settled at least, or exactly. */
interface Paid {
  readonly paid: AtomicAmount
  readonly isAll: boolean
}

/** The limit, for one transaction. */
export interface NewPayers {
  /** Returns what is known of the payer's settled charges: exactly only what this transaction has read. */
  paidBy(payer: string): Paid
  recordPaid(payer: string, paid: Paid): void
  /**
   * Reserves a payment and returns `null` when it fits the limit, else returns why it does not. The first one waits until no
   * other transaction has reserved what it has not written yet, and until the end of this one the others wait.
   */
  reserve(sql: Sql, payment: UncoveredPayment): Promise<LimitRefusal | null>
}

const NOTHING = atomicAmount(0n)

export function createNewPayersLimit(limit: AtomicAmount, nowMs: () => number): NewPayersLimit {
  const paid = new LRUCache<string, AtomicAmount>({ max: REMEMBERED_PAYERS })
  const refusals = new LRUCache<string, { refusal: LimitRefusal; maximum: AtomicAmount; atMs: number }>({
    max: REMEMBERED_NETWORKS,
  })
  const recentRefusal = ({ network, maximum }: UncoveredPayment): LimitRefusal | null => {
    const recent = refusals.get(network)
    return recent && maximum >= recent.maximum && nowMs() - recent.atMs < REFUSAL_LIFE_MS ? recent.refusal : null
  }
  return {
    forTransaction: (networks) => {
      const reserved = new Map<string, bigint>()
      let exposures: Promise<NewPayerExposures> | null = null
      const read = new Map<string, Paid>()
      const paidBy = (payer: string) => read.get(payer) ?? { paid: paid.get(payer) ?? NOTHING, isAll: false }
      return {
        paidBy,
        recordPaid: (payer, one) => {
          const known = paidBy(payer)
          if (known.isAll || (one.paid <= known.paid && !one.isAll)) return
          read.set(payer, one)
          if (one.paid > NOTHING) paid.set(payer, one.paid)
        },
        reserve: async (sql, payment) => {
          const { network, maximum } = payment
          const repeated = recentRefusal(payment)
          if (repeated) return repeated
          exposures ??= readAlone(sql, [...new Set(networks)])
          const refusal = judge(limit, payment, await exposures, reserved)
          // What this transaction reserved may be rolled back.
          if (refusal && reserved.size === 0) refusals.set(network, { refusal, maximum, atMs: nowMs() })
          if (!refusal) reserved.set(network, (reserved.get(network) ?? 0n) + maximum)
          return refusal
        },
      }
    },
  }
}

/** Waits for the lock and reads the sums behind it, with a snapshot of their own, in one round trip. */
async function readAlone(sql: Sql, networks: readonly string[]): Promise<NewPayerExposures> {
  const [, exposures] = await Promise.all([
    sql.query({
      name: 'await_turn_of_new_payers',
      text: `SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $1, true),
       pg_advisory_xact_lock(hashtextextended('farebox new payers', 0))`,
      values: [LONGEST_WAIT],
    }),
    readNewPayerExposure(sql, networks),
  ])
  return exposures
}

function judge(
  limit: AtomicAmount,
  { network, maximum, highestPrice }: UncoveredPayment,
  { all, byNetwork }: NewPayerExposures,
  reserved: ReadonlyMap<string, bigint>,
): LimitRefusal | null {
  const own = byNetwork.get(network)
  if (!own) throw new Error(`the exposure of ${network} was not read`)
  const total = all.open + all.lost + [...reserved.values()].reduce((sum, amount) => sum + amount, 0n)
  const ofNetwork = own.open + own.lost + (reserved.get(network) ?? 0n)
  // A limit below the price of a call would otherwise let nobody begin.
  if (total === 0n) return null
  if (total + maximum > limit) return { limit: 'all', retryAfterSeconds: secondsUntilFits(all, maximum, limit) }
  const left = (limit - (total - ofNetwork)) / SHARE_OF_NETWORK
  const share = left > highestPrice ? left : highestPrice
  return ofNetwork + maximum > share
    ? { limit: 'network', retryAfterSeconds: secondsUntilFits(own, maximum, share) }
    : null
}

function secondsUntilFits({ lost, oldestLeavesInSeconds }: NewPayerExposure, maximum: bigint, limit: bigint): number {
  return lost + maximum > limit ? Math.max(OPEN_WORK_RETRY_SECONDS, oldestLeavesInSeconds) : OPEN_WORK_RETRY_SECONDS
}
