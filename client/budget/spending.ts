import type { Attempt, OpenMaximum } from '../journal/attempt.ts'
import { countedCharge } from '../journal/entries.ts'

const DAY_MS = 86_400_000

/**
 * Sums of what was and what may still be charged, kept up to date with each change of the journal. A signed payment of
 * unknown outcome counts until its outcome is known, for days until the one on which it can be settled last.
 */
class Spending {
  readonly #countedReceipts = new Map<string, number>()
  readonly #chargedByDay = new Map<number, bigint>()
  readonly #open = new Map<string, OpenMaximum>()
  readonly #ownKeys = new Set<string>()
  readonly #countedRefusals = new Map<string, number>()
  #refused: OpenMaximum[] = []
  #ownCharged = 0n

  update({ key, open, receipts, refused }: Attempt, isOwn: boolean): void {
    for (const entry of receipts.slice(this.#countedReceipts.get(key) ?? 0)) {
      const day = dayOf(Date.parse(entry.at))
      const charge = countedCharge(entry)
      this.#chargedByDay.set(day, (this.#chargedByDay.get(day) ?? 0n) + charge)
      if (isOwn) this.#ownCharged += charge
    }
    const counted = this.#countedRefusals.get(key) ?? 0
    if (refused.length > counted) {
      this.#refused.push(...refused.slice(counted))
      this.#countedRefusals.set(key, refused.length)
    }
    if (receipts.length > 0) this.#countedReceipts.set(key, receipts.length)
    if (isOwn) this.#ownKeys.add(key)
    if (open !== null) this.#open.set(key, open)
    else {
      this.#open.delete(key)
      this.#ownKeys.delete(key)
    }
  }

  /** Returns what counts for this process: its charges, and the maxima of its calls under way. */
  session(now: number, exceptKey?: string): bigint {
    return this.#ownCharged + this.underWay(now, exceptKey)
  }

  /** Returns the maxima of this process's calls under way. */
  underWay(now: number, exceptKey?: string): bigint {
    let sum = 0n
    for (const key of this.#ownKeys) if (key !== exceptKey) sum += counted(this.#open.get(key), now)
    return sum
  }

  /** Returns what counts for the UTC day of `now`, for all processes. */
  day(now: number, exceptKey?: string): bigint {
    const today = dayOf(now)
    let sum = this.#chargedByDay.get(today) ?? 0n
    for (const [key, open] of this.#open) if (key !== exceptKey && dayOf(open.until) >= today) sum += counted(open, now)
    return sum
  }

  /** Returns the payments that were refused and could be settled all the same, for all processes. */
  refused(now: number): readonly OpenMaximum[] {
    this.#refused = this.#refused.filter(({ until }) => until > now)
    return this.#refused
  }

  /** Returns what may still be charged for a call. */
  openMaximum(key: string, now: number): bigint {
    return counted(this.#open.get(key), now)
  }
}

const NONE = new Spending()

/** What was and may still be charged, for all calls and for those of each group. */
export class SpendingByGroup {
  readonly #all = new Spending()
  readonly #groups = new Map<string, Spending>()

  update(attempt: Attempt, isOwn: boolean): void {
    this.#all.update(attempt, isOwn)
    for (const group of groupsOf(attempt)) if (!this.#groups.has(group)) this.#groups.set(group, new Spending())
    for (const [group, spending] of this.#groups) spending.update(partOf(attempt, group), isOwn)
  }

  /** Returns the sums of a group; `null` for those of all calls. */
  of(group: string | null): Spending {
    return group === null ? this.#all : (this.#groups.get(group) ?? NONE)
  }
}

/** An unsigned reservation ends by itself; what is signed counts until its outcome is known. */
function counted(open: OpenMaximum | undefined, now: number): bigint {
  if (open === undefined) return 0n
  return open.isSigned || open.until > now ? open.maximum : 0n
}

function dayOf(time: number): number {
  return Math.floor(time / DAY_MS)
}

function groupsOf({ open, refused, receipts }: Attempt): ReadonlySet<string> {
  const named = [open, ...refused, ...receipts].map((each) => each?.group)
  return new Set(named.filter((group) => group !== undefined))
}

/** Returns what a call owes to a group: its payments may have been made in several. */
function partOf(attempt: Attempt, group: string): Attempt {
  const { open, refused, receipts } = attempt
  return {
    ...attempt,
    open: open?.group === group ? open : null,
    refused: refused.filter((payment) => payment.group === group),
    receipts: receipts.filter((receipt) => receipt.group === group),
  }
}
