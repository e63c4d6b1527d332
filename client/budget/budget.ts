import type { Journal } from '../journal/journal.ts'
import { BudgetExceeded, type LimitName } from './budget-exceeded.ts'
import { TooManyRefused } from './refused-payments.ts'
import { Spending } from './spending.ts'
import { parseUsdc } from './usdc.ts'

/** Limits as decimal USDC; a missing one does not limit. A day is a UTC day, over all processes with the same journal. */
export interface BudgetLimits {
  readonly call?: string | undefined
  readonly session?: string | undefined
  readonly day?: string | undefined
}

/** What a budget has left, in atomic units; `null` without a limit. */
export type BudgetLeft = Readonly<Record<LimitName, bigint | null>>

/** A reservation must be signed within this time. */
export const RESERVATION_MS = 10 * 60_000

/** As many refusals of one payment are no reason for suspicion, however small the budget is. */
const FEW_PAYMENTS = 4n

interface Request {
  readonly key: string
  readonly maximum: bigint
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Reserves maxima before payments are signed, so that charges and maxima under way never exceed a limit. The journal
 * records each reservation, and the entries about its outcome end it.
 */
export class Budget {
  readonly #journal: Journal
  readonly #limits: readonly (readonly [LimitName, bigint])[]
  readonly #now: () => number
  readonly #spending = new Spending()
  #waiting: Request[] = []
  #isDeciding = false

  constructor(limits: BudgetLimits, journal: Journal, now: () => number = Date.now) {
    this.#journal = journal
    this.#now = now
    this.#limits = (['call', 'session', 'day'] as const).flatMap((name) => {
      const limit = limits[name]
      return limit === undefined ? [] : [[name, parseUsdc(limit)] as const]
    })
    journal.attempts.subscribe((attempt, isOwn) => this.#spending.update(attempt, isOwn))
  }

  /**
   * Reserves the maximum of a call until its outcome is journaled. What the same call has reserved before is replaced.
   * Throws `BudgetExceeded`.
   */
  reserve(key: string, maximum: bigint): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, maximum, resolve, reject })
      if (!this.#isDeciding) void this.#decideAll()
    })
  }

  left(): BudgetLeft {
    const left: Record<LimitName, bigint | null> = { call: null, session: null, day: null }
    for (const [name, limit] of this.#limits) left[name] = limit - this.#used(name)
    return left
  }

  /** One lock serves all requests that came while the one before was held. */
  async #decideAll(): Promise<void> {
    this.#isDeciding = true
    while (this.#waiting.length > 0) {
      const requests = this.#waiting
      this.#waiting = []
      try {
        const outcomes = await this.#decideSafely(requests)
        for (const [index, { resolve, reject }] of requests.entries()) {
          const problem = outcomes[index]
          if (problem === undefined) resolve()
          else reject(problem)
        }
      } catch (error) {
        for (const { reject } of requests) reject(error)
      }
    }
    this.#isDeciding = false
  }

  /** Only the budget of the day counts what other processes do, so only it needs their lock and their entries. */
  async #decideSafely(requests: readonly Request[]): Promise<readonly unknown[]> {
    if (!this.#limits.some(([name]) => name === 'day')) return this.#decide(requests)
    return await this.#journal.exclusively(() => {
      this.#journal.refresh()
      return this.#decide(requests)
    })
  }

  #decide(requests: readonly Request[]): readonly unknown[] {
    return requests.map(({ key, maximum }) => {
      try {
        this.#require(key, maximum)
        const expiresAt = new Date(this.#now() + RESERVATION_MS).toISOString()
        this.#journal.append({ phase: 'quoted', key, maximum: maximum.toString(), expiresAt })
        return undefined
      } catch (error) {
        return error
      }
    })
  }

  #require(key: string, maximum: bigint): void {
    const open = this.#spending.openMaximum(key, this.#now())
    // A signed payment stays open next to its successor, so the higher maximum counts.
    const asked = maximum > open ? maximum : open
    for (const [name, limit] of this.#limits) {
      const left = limit - this.#used(name, key)
      if (asked > left) throw new BudgetExceeded(name, limit, left > 0n ? left : 0n, maximum)
      if (name !== 'call') this.#requireFewRefused(maximum, limit)
    }
  }

  /** A service that refuses payments and keeps their signatures could otherwise collect any number of them. */
  #requireFewRefused(maximum: bigint, limit: bigint): void {
    const refused = this.#spending.refused(this.#now())
    const sum = refused.reduce((total, payment) => total + payment.maximum, 0n)
    const few = FEW_PAYMENTS * maximum
    if (sum + maximum <= (limit > few ? limit : few)) return
    throw new TooManyRefused(sum, Math.min(...refused.map(({ until }) => until)))
  }

  #used(name: LimitName, exceptKey?: string): bigint {
    if (name === 'call') return 0n
    return this.#spending[name](this.#now(), exceptKey)
  }
}
