import { describe, expect, it } from 'vitest'
import { Budget } from '../../../../client/budget/budget.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import type { BudgetLimits, RefusedLimit } from '../../../../client/budget/limits.ts'
import { formatUsdc } from '../../../../client/budget/usdc.ts'
import { createMemoryJournal } from '../../../../client/journal/memory-journal.ts'
import { NOON, outcomesOf } from './support/journaled-calls.ts'

const DAY_MS = 86_400_000

function compose(limits: BudgetLimits | (() => BudgetLimits)) {
  const clock = { now: NOON }
  const journal = createMemoryJournal(() => clock.now)
  const budget = new Budget(limits, journal, () => clock.now)
  return { clock, budget, ...outcomesOf(journal, clock) }
}

const advice = ({ name, group, neededAtomic }: RefusedLimit) =>
  `set ${name} of ${group ?? 'all'} to ${formatUsdc(neededAtomic)}`

describe('groups of a budget', () => {
  it('the limits of a group hold for its calls only, within those of all calls', async () => {
    const { budget } = compose({ call: '0.5', session: '1', groups: { images: { call: '0.2', session: '0.3' } } })
    await expect(budget.reserve('a', 200_001n, 'images')).rejects.toMatchObject({ limit: 'call', group: 'images' })
    await budget.reserve('b', 200_000n, 'images')
    await expect(budget.reserve('c', 100_001n, 'images')).rejects.toMatchObject({ limit: 'session', group: 'images' })
    await budget.reserve('d', 500_000n, 'chat')
    await expect(budget.reserve('e', 300_001n)).rejects.toMatchObject({ limit: 'session', group: null })
    expect(budget.left('images')).toEqual({ call: 200_000n, session: 100_000n, day: null })
    expect(budget.left()).toEqual({ call: 500_000n, session: 300_000n, day: null })
  })

  it('a charge stays with the group whose payment it is, whatever the key is used for later', async () => {
    const { budget, sign, answer } = compose({ groups: { images: { day: '1' }, chat: { day: '1' } } })
    const call = { key: 'a', maximum: 400_000n, group: 'images' }
    await budget.reserve('a', 400_000n, 'images')
    sign(call)
    answer(call, 300_000n)
    await budget.reserve('a', 100_000n, 'chat')
    expect([budget.left('images').day, budget.left('chat').day]).toEqual([700_000n, 900_000n])
  })

  it('a signed payment of unknown outcome counts for its group on the next day, too', async () => {
    const { budget, sign, clock } = compose({ groups: { images: { day: '1' } } })
    await budget.reserve('a', 600_000n, 'images')
    sign({ key: 'a', maximum: 600_000n })
    clock.now = Date.parse('2026-03-01T23:59:59Z')
    await expect(budget.reserve('b', 400_001n, 'images')).rejects.toBeInstanceOf(BudgetExceeded)
    clock.now += DAY_MS
    await budget.reserve('b', 1_000_000n, 'images')
  })

  it('refused payments that could be settled all the same count for their group', async () => {
    const { budget, sign, refuse } = compose({ groups: { images: { session: '0.4' }, chat: { session: '0.4' } } })
    for (const key of ['a', 'b', 'c', 'd']) {
      await budget.reserve(key, 100_000n, 'images')
      sign({ key, maximum: 100_000n })
      refuse({ key, maximum: 100_000n })
    }
    await expect(budget.reserve('e', 100_000n, 'images')).rejects.toMatchObject({ code: 'too_many_refused' })
    await budget.reserve('f', 100_000n, 'chat')
  })

  it('a name that every object has is a group like any other', async () => {
    const { budget } = compose({ session: '1', groups: { chat: { session: '0.1' } } })
    await budget.reserve('a', 1_000_000n, 'constructor')
    expect(budget.left('__proto__').session).toBe(0n)
  })
})

describe('limits that change', () => {
  it('are asked for before each decision', async () => {
    let limits: BudgetLimits = { session: '1' }
    const { budget } = compose(() => limits)
    await budget.reserve('a', 500_000n)
    limits = { session: '0.6' }
    await expect(budget.reserve('b', 100_001n)).rejects.toThrow('the session budget of 0.6 USDC has 0.1 USDC left')
    limits = { session: '2' }
    await budget.reserve('c', 1_500_000n)
  })

  it('refuse a payment that was reserved and does not fit any more, and leave room for the others', async () => {
    let limits: BudgetLimits = { session: '1' }
    const { budget, refuse } = compose(() => limits)
    for (const key of ['a', 'b', 'c']) await budget.reserve(key, 300_000n)
    limits = { session: '0.6' }
    expect(() => budget.requireRoom('a', 300_000n)).toThrow(BudgetExceeded)
    refuse({ key: 'a', maximum: 300_000n })
    budget.requireRoom('b', 300_000n)
    budget.requireRoom('c', 300_000n)
  })

  it('refuse every payment while they cannot be read', async () => {
    const { budget } = compose(() => {
      throw new Error('unreadable')
    })
    await expect(budget.reserve('a', 1n)).rejects.toThrow('unreadable')
    expect(() => budget.requireRoom('a', 1n)).toThrow('unreadable')
  })

  it('say how to allow a call, with the limit that it would fit into', async () => {
    const { budget } = compose({ groups: { chat: { day: '0.5' } }, advice })
    await budget.reserve('a', 300_000n, 'chat')
    await expect(budget.reserve('b', 250_000n, 'chat')).rejects.toMatchObject({ advice: 'set day of chat to 0.55' })
  })
})
