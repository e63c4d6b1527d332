import { formatUsdc } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import type { PlannedFile } from '../types.ts'

/**
 * Keeps a recording of several parts from being paid for in part: a file is begun only if all of it fits into what the
 * budget had at the start, less all that was begun. The budget itself refuses what exceeds it in any case.
 */
export class Affordable {
  readonly #limit: { readonly name: string; readonly left: bigint } | undefined
  #begun = 0n

  constructor(farebox: Pick<Farebox, 'budgetLeft'>, group?: string) {
    const { session, day } = farebox.budgetLeft(group)
    const limits = [
      { name: 'session', left: session },
      { name: 'day', left: day },
    ].flatMap(({ name, left }) => (left === null ? [] : [{ name, left }]))
    limits.sort((a, b) => (a.left < b.left ? -1 : 1))
    this.#limit = limits[0]
  }

  /** Counts files as begun; returns the error of the budget instead if they do not fit. */
  begin(files: readonly PlannedFile[]): FareboxError | undefined {
    const price = toCharge(files)
    if (this.#limit !== undefined && this.#begun + price > this.#limit.left) {
      const { name, left } = this.#limit
      return new FareboxError({
        code: 'budget_exceeded',
        problem: `${files[0]?.label ?? ''} costs ${formatUsdc(price)} USDC, but the ${name} budget has ${formatUsdc(left - this.#begun)} USDC left.`,
        money: 'none',
        advice: 'Raise the budget, then run the command again: it does what is missing.',
      })
    }
    this.#begun += price
    return undefined
  }

  /** Corrects the sum by what was really charged. */
  end(files: readonly PlannedFile[], charged: bigint): void {
    this.#begun += charged - toCharge(files)
  }
}

function toCharge(files: readonly PlannedFile[]): bigint {
  return files.reduce((sum, { price, alreadyPaid }) => sum + price - alreadyPaid, 0n)
}
