import type { Journal } from '../journal/journal.ts'
import { BudgetExceeded, type LimitName, TooManyRefused } from './budget-exceeded.ts'
import { type BudgetLimits, type Limit, limitsOf, readLimits } from './limits.ts'
import { SpendingByGroup } from './spending.ts'

/** What a budget has left, in atomic units; `null` without a limit. */
export type BudgetLeft = Readonly<Record<LimitName, bigint | null>>

/** Returns what the tighter of the budgets of session and day leaves; `null` without any. */
export function leastLeft({ session, day }: Pick<BudgetLeft, 'session' | 'day'>): bigint | null {
  if (session === null || day === null) return session ?? day
  return session < day ? session : day
}

/** A reservation must be signed within this time. */
export const RESERVATION_MS = 10 * 60_000

/** As many refusals of one payment are no reason for suspicion, however small the budget is. */
const FEW_PAYMENTS = 4n

interface Request {
  readonly key: string
  readonly maximum: bigint
  readonly group: string | undefined
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Reserves maxima before payments are signed, so that charges and maxima under way never exceed a limit. The journal
 * records each reservation, and the entries about its outcome end it.
 */
export class Budget {
  readonly #journal: Journal
  readonly #limits: () => readonly Limit[]
  readonly #now: () => number
  readonly #spending = new SpendingByGroup()
  #waiting: Request[] = []
  #isDeciding = false

  /** Limits that may change are asked for before each decision; what asking for them throws refuses the payment. */
  constructor(limits: BudgetLimits | (() => BudgetLimits), journal: Journal, now: () => number = Date.now) {
    this.#journal = journal
    this.#now = now
    if (typeof limits === 'function') this.#limits = () => readLimits(limits())
    else {
      const fixed = readLimits(limits)
      this.#limits = () => fixed
    }
    journal.attempts.subscribe((attempt, isOwn) => this.#spending.update(attempt, isOwn))
  }

  /**
   * Reserves the maximum of a call until its outcome is journaled. What the same call has reserved before is replaced.
   * The limits of a group hold next to those of all calls. Throws `BudgetExceeded`.
   */
  reserve(key: string, maximum: bigint, group?: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, maximum, group, resolve, reject })
      if (!this.#isDeciding) void this.#decideAll()
    })
  }

  /** Throws `BudgetExceeded` unless a payment fits at present, or still fits after it was reserved. Reserves nothing. */
  requireBudget(key: string, maximum: bigint, group?: string): void {
    this.#require({ key, maximum, group }, this.#limits())
  }

  /** Returns what is left for the calls of a group, or for those without one. */
  left(group: string | null = null): BudgetLeft {
    const left: Record<LimitName, bigint | null> = { call: null, session: null, day: null }
    for (const limit of limitsOf(this.#limits(), group)) {
      const own = limit.atomic - this.#used(limit)
      const least = left[limit.name]
      left[limit.name] = least === null || own < least ? own : least
    }
    return left
  }

  /** Returns what the payments of this process under way may take in all. */
  underWay(): bigint {
    return this.#spending.of(null).underWay(this.#now())
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

  /** Only budgets of the day count what other processes do, so only they need their lock and their entries. */
  async #decideSafely(requests: readonly Request[]): Promise<readonly unknown[]> {
    const limits = this.#limits()
    if (!limits.some(({ name }) => name === 'day')) return this.#decide(requests, limits)
    return await this.#journal.exclusively(() => {
      this.#journal.refresh()
      // They may have changed during the wait for the lock.
      return this.#decide(requests, this.#limits())
    })
  }

  #decide(requests: readonly Request[], limits: readonly Limit[]): readonly unknown[] {
    return requests.map((request) => {
      const { key, maximum, group } = request
      try {
        this.#require(request, limits)
        const expiresAt = new Date(this.#now() + RESERVATION_MS).toISOString()
        this.#journal.append({ phase: 'quoted', key, maximum: maximum.toString(), expiresAt, group })
        return undefined
      } catch (error) {
        return error
      }
    })
  }

  #require({ key, maximum, group }: Pick<Request, 'key' | 'maximum' | 'group'>, limits: readonly Limit[]): void {
    const open = this.#spending.of(null).openMaximum(key, this.#now())
    // A signed payment stays open next to its successor, so the higher maximum counts.
    const asked = maximum > open ? maximum : open
    for (const limit of limitsOf(limits, group ?? null)) {
      const used = this.#used(limit, key)
      if (used + asked > limit.atomic) throw exceeded(limit, used, asked)
      if (limit.name !== 'call') this.#requireFewRefused(maximum, limit)
    }
  }

  /** A service that refuses payments and keeps their signatures could otherwise collect any number of them. */
  #requireFewRefused(maximum: bigint, { atomic, group }: Limit): void {
    const refused = this.#spending.of(group).refused(this.#now())
    const sum = refused.reduce((total, payment) => total + payment.maximum, 0n)
    const few = FEW_PAYMENTS * maximum
    if (sum + maximum <= (atomic > few ? atomic : few)) return
    throw new TooManyRefused(sum, Math.min(...refused.map(({ until }) => until)))
  }

  #used({ name, group }: Limit, exceptKey?: string): bigint {
    if (name === 'call') return 0n
    return this.#spending.of(group)[name](this.#now(), exceptKey)
  }
}

function exceeded({ name, group, atomic, advice }: Limit, used: bigint, asked: bigint): BudgetExceeded {
  const left = atomic > used ? atomic - used : 0n
  const refused = { name, group, limitAtomic: atomic, neededAtomic: used + asked }
  return new BudgetExceeded(name, atomic, left, asked, { group, advice: advice?.(refused) })
}
