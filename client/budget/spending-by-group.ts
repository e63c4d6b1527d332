import type { Attempt } from '../journal/attempt.ts'
import { Spending } from './spending.ts'

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
