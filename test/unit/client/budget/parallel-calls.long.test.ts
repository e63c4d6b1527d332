import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Budget } from '../../../../client/budget/budget.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import type { BudgetAmounts, BudgetLimits } from '../../../../client/budget/limits.ts'
import { TooManyRefused } from '../../../../client/budget/refused-payments.ts'
import { formatUsdc } from '../../../../client/budget/usdc.ts'
import type { NewEntry } from '../../../../client/journal/entries.ts'
import type { Journal } from '../../../../client/journal/journal.ts'
import { createMemoryJournal } from '../../../../client/journal/memory-journal.ts'
import { NOON, outcomesOf } from './support/journaled-calls.ts'

const GROUPS = ['chat', 'generate_image', 'speak', undefined] as const
const amount = fc.bigInt(0n, 4_000_000n)
const amounts = fc.record({ call: fc.bigInt(0n, 400_000n), session: amount, day: amount }, { requiredKeys: [] })
const call = fc.record({
  maximum: fc.bigInt(1n, 300_000n),
  share: fc.integer({ min: 0, max: 100 }),
  group: fc.constantFrom(...GROUPS),
  process: fc.integer({ min: 0, max: 1 }),
  outcome: fc.constantFrom('charged', 'refused', 'lost', 'replayed'),
})
const scenario = fc.record({
  all: amounts,
  groups: fc.dictionary(fc.constantFrom('chat', 'generate_image', 'speak'), amounts),
  calls: fc.array(call, { minLength: 200, maxLength: 200 }),
})
type Amounts = Partial<Record<'call' | 'session' | 'day', bigint>>

function decimal(limits: Amounts): BudgetAmounts {
  return Object.fromEntries(Object.entries(limits).map(([name, atomic]) => [name, formatUsdc(atomic)]))
}

/** What a service can have taken at most so far, kept apart from the budget's own sums. */
class Exposure {
  readonly #sums = new Map<string, bigint>()
  readonly violations: string[] = []
  readonly #limits: ReadonlyMap<string, bigint>

  constructor(limits: ReadonlyMap<string, bigint>) {
    this.#limits = limits
  }

  requireAtMost(maximum: bigint, limits: readonly (bigint | undefined)[]): void {
    for (const limit of limits)
      if (limit !== undefined && maximum > limit) this.violations.push(`a call of ${maximum} above ${limit}`)
  }

  add(names: readonly string[], change: bigint): void {
    for (const name of names) {
      const sum = (this.#sums.get(name) ?? 0n) + change
      this.#sums.set(name, sum)
      const limit = this.#limits.get(name)
      if (limit !== undefined && sum > limit) this.violations.push(`${name}: ${sum} above ${limit}`)
    }
  }
}

/** Two journals that read each other's entries when they are refreshed, as those in files do. */
function twoProcesses(limits: BudgetLimits) {
  const clock = { now: NOON }
  const written: [NewEntry[], NewEntry[]] = [[], []]
  let held: Promise<unknown> = Promise.resolve()
  return ([0, 1] as const).map((index) => {
    const own = createMemoryJournal(() => clock.now)
    const journal: Journal = {
      ...own,
      append: (...entries) => {
        own.append(...entries)
        written[index].push(...entries)
      },
      refresh: () => {
        const at = new Date(clock.now).toISOString()
        for (const entry of written[1 - index]?.splice(0) ?? []) own.attempts.apply({ ...entry, at }, 'other', false)
      },
      exclusively: async (work) => {
        const result = held.then(work)
        held = result.catch(() => undefined)
        return await result
      },
    }
    return { budget: new Budget(limits, journal, () => clock.now), ...outcomesOf(journal, clock) }
  })
}

describe('200 parallel calls in two processes', () => {
  it('never exceed a limit of a call, a session, a day or a group, for any prices, outcomes and orders', async () => {
    await fc.assert(
      fc.asyncProperty(scenario, fc.scheduler(), async ({ all, groups, calls }, scheduler) => {
        const named = [['', all] as const, ...Object.entries(groups)]
        const limits = new Map<string, bigint>()
        for (const [group, own] of named) {
          for (const process of [0, 1])
            if (own.session !== undefined) limits.set(`${group} session ${process}`, own.session)
          if (own.day !== undefined) limits.set(`${group} day`, own.day)
        }
        const exposure = new Exposure(limits)
        const tools = Object.fromEntries(Object.entries(groups).map(([group, own]) => [group, decimal(own)]))
        const processes = twoProcesses({ ...decimal(all), groups: tools })
        const makeCall = async (
          { maximum, share, group, process, outcome: end }: (typeof calls)[number],
          index: number,
        ) => {
          const { budget, sign, answer, refuse } = processes[process] as (typeof processes)[number]
          const paid = { key: `k${index}`, maximum, group }
          await scheduler.schedule(Promise.resolve())
          const refusal = await budget.reserve(paid.key, maximum, group).catch((error: Error) => error)
          if (refusal instanceof BudgetExceeded || refusal instanceof TooManyRefused) return
          if (refusal !== undefined) throw refusal
          exposure.requireAtMost(maximum, [all.call, groups[group ?? '']?.call])
          const names = ['', ...(group === undefined ? [] : [group])].flatMap((each) => [
            `${each} session ${process}`,
            `${each} day`,
          ])
          exposure.add(names, maximum)
          sign(paid)
          await scheduler.schedule(Promise.resolve())
          const charge = (maximum * BigInt(share)) / 100n
          if (end === 'refused') {
            exposure.add(names, -maximum)
            refuse(paid)
          } else if (end !== 'lost') {
            exposure.add(names, charge - maximum)
            answer(paid, charge)
            if (end === 'replayed') answer(paid, charge)
          }
        }
        await scheduler.waitFor(Promise.all(calls.map(makeCall)))
        expect(exposure.violations).toEqual([])
      }),
      { numRuns: 500 },
    )
  })
})
