import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BudgetExceeded } from '../../../client/budget/budget-exceeded.ts'
import { Budget, RESERVATION_MS } from '../../../client/budget/budget.ts'
import type { BudgetLimits, RefusedLimit } from '../../../client/budget/limits.ts'
import { formatUsdc, parseUsdc } from '../../../client/budget/usdc.ts'
import { createMemoryJournal } from '../../../client/journal/journal.ts'
import { NOON, outcomesOf } from '../../support/client/journaled-calls.ts'

const DAY_MS = 86_400_000
const advice = ({ name, group, neededAtomic }: RefusedLimit) =>
  `set ${name} of ${group ?? 'all'} to ${formatUsdc(neededAtomic)}`

describe('the budget', () => {
  const NOON = Date.parse('2026-03-01T12:00:00Z')
  function compose(limits: ConstructorParameters<typeof Budget>[0]) {
    const clock = { now: NOON }
    const journal = createMemoryJournal(() => clock.now)
    const budget = new Budget(limits, journal, () => clock.now)
    return {
      clock,
      journal,
      budget,
      sign: (key: string, maximum: bigint) =>
        journal.append({
          phase: 'signed',
          key,
          maximum: maximum.toString(),
          deadline: new Date(clock.now + 600_000).toISOString(),
          payment: 'payment',
        }),
      answer: (key: string, charge: bigint, receiptId = key) =>
        journal.append({
          phase: 'answered',
          key,
          charge: charge.toString(),
          transaction: null,
          receiptId,
          receiptToken: null,
        }),
      refuse: (key: string) => journal.append({ phase: 'refused', key, status: 503, code: 'provider_unavailable' }),
    }
  }

  it('a call above the limit of one call is refused with the limit, what is left and what was asked', async () => {
    const { budget } = compose({ call: '0.15' })
    await budget.reserve('a', 150_000n)
    await expect(budget.reserve('b', 150_001n)).rejects.toThrow(
      'The call costs at most 0.150001 USDC, but the call budget of 0.15 USDC has 0.15 USDC left. Nothing was charged.',
    )
  })

  it.each(['session', 'day'] as const)('the %s budget counts maxima under way and then charges', async (limit) => {
    const { budget, sign, answer } = compose({ [limit]: '1' })
    await budget.reserve('a', 700_000n)
    sign('a', 700_000n)
    await expect(budget.reserve('b', 300_001n)).rejects.toBeInstanceOf(BudgetExceeded)
    answer('a', 100_000n)
    await budget.reserve('b', 900_000n)
    expect(budget.left()[limit]).toBe(0n)
  })

  it('a replay is counted once, a second receipt of the same key is added', async () => {
    const { budget, sign, answer } = compose({ day: '1' })
    for (const receipt of ['r1', 'r1', 'r2']) {
      await budget.reserve('a', 400_000n)
      sign('a', 400_000n)
      answer('a', 300_000n, receipt)
    }
    expect(budget.left().day).toBe(400_000n)
  })

  it('a refused payment is free again, one of unknown outcome is not', async () => {
    const { budget, sign, refuse, clock } = compose({ session: '1' })
    await budget.reserve('a', 1_000_000n)
    sign('a', 1_000_000n)
    clock.now += DAY_MS * 2
    await expect(budget.reserve('b', 1n)).rejects.toBeInstanceOf(BudgetExceeded)
    refuse('a')
    await budget.reserve('b', 1_000_000n)
  })

  it('a reservation that is never signed ends by itself', async () => {
    const { budget, clock } = compose({ session: '1', day: '1' })
    await budget.reserve('a', 1_000_000n)
    clock.now += RESERVATION_MS
    await budget.reserve('b', 1_000_000n)
  })

  it('the same call reserves in place of what it reserved before', async () => {
    const { budget, sign } = compose({ session: '1' })
    await budget.reserve('a', 800_000n)
    sign('a', 800_000n)
    await budget.reserve('a', 900_000n)
    sign('a', 900_000n)
    expect(budget.left().session).toBe(100_000n)
    await budget.reserve('a', 100_000n)
    expect(budget.left().session).toBe(100_000n)
  })

  it('the day’s budget begins again at midnight UTC, the session’s does not', async () => {
    const { budget, sign, answer, clock } = compose({ session: '2', day: '1' })
    await budget.reserve('a', 1_000_000n)
    sign('a', 1_000_000n)
    answer('a', 1_000_000n)
    await expect(budget.reserve('b', 1n)).rejects.toMatchObject({ limit: 'day' })
    clock.now = Date.parse('2026-03-02T00:00:00Z')
    await budget.reserve('b', 1_000_000n)
    expect(budget.left()).toMatchObject({ session: 0n, day: 0n })
  })

  it('charges and maxima under way never exceed the limit, for any prices, outcomes and concurrency of 64', async () => {
    const outcome = fc.constantFrom('charged', 'refused', 'lost', 'replayed')
    const call = fc.record({ maximum: fc.bigInt(1n, 500_000n), share: fc.integer({ min: 0, max: 100 }), outcome })
    const scenario = fc.record({
      limit: fc.bigInt(0n, 8_000_000n),
      calls: fc.array(call, { minLength: 1, maxLength: 200 }),
    })
    await fc.assert(
      fc.asyncProperty(scenario, fc.scheduler(), async ({ limit, calls }, scheduler) => {
        const { budget, sign, answer, refuse } = compose({ session: formatUsdc(limit), day: formatUsdc(limit) })
        // Kept apart from the budget's own sums: what a service could have charged so far.
        let exposed = 0n
        let most = 0n
        const add = (amount: bigint) => {
          exposed += amount
          if (exposed > most) most = exposed
        }
        const makeCall = async ({ maximum, share, outcome: end }: (typeof calls)[number], index: number) => {
          const key = `k${index}`
          const refusal = await budget.reserve(key, maximum).catch((error: unknown) => error)
          if (refusal instanceof BudgetExceeded) return
          expect(refusal).toBeUndefined()
          add(maximum)
          sign(key, maximum)
          await scheduler.schedule(Promise.resolve())
          const charge = (maximum * BigInt(share)) / 100n
          if (end === 'refused') {
            refuse(key)
            add(-maximum)
          } else if (end !== 'lost') {
            answer(key, charge)
            if (end === 'replayed') answer(key, charge)
            add(charge - maximum)
          }
        }
        const queue = [...calls.entries()]
        const worker = async () => {
          for (let next = queue.shift(); next !== undefined; next = queue.shift()) await makeCall(next[1], next[0])
        }
        const workers = Promise.all(Array.from({ length: 64 }, worker))
        await scheduler.waitFor(workers)
        expect(most <= limit).toBe(true)
        expect(budget.left().session).toBe(limit - exposed)
      }),
      { numRuns: 500 },
    )
  })
})

describe('amounts of USDC', () => {
  it('an amount that is rendered and parsed is the same', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (atomic) => parseUsdc(formatUsdc(atomic)) === atomic),
    )
  })

  it.each(['', '-1', '1e3', '0.0000001', '.5', '1.', ' 1', '0x1', '1,5', 'NaN'])('%j is not an amount', (text) => {
    expect(() => parseUsdc(text)).toThrow(RangeError)
  })
})

function composeGroups(limits: BudgetLimits | (() => BudgetLimits)) {
  const clock = { now: NOON }
  const journal = createMemoryJournal(() => clock.now)
  const budget = new Budget(limits, journal, () => clock.now)
  return { clock, budget, ...outcomesOf(journal, clock) }
}

describe('a budget with groups', () => {
  describe('groups of a budget', () => {
    it('the limits of a group hold for its calls only, within those of all calls', async () => {
      const { budget } = composeGroups({
        call: '0.5',
        session: '1',
        groups: { images: { call: '0.2', session: '0.3' } },
      })
      await expect(budget.reserve('a', 200_001n, 'images')).rejects.toMatchObject({ limit: 'call', group: 'images' })
      await budget.reserve('b', 200_000n, 'images')
      await expect(budget.reserve('c', 100_001n, 'images')).rejects.toMatchObject({ limit: 'session', group: 'images' })
      await budget.reserve('d', 500_000n, 'chat')
      await expect(budget.reserve('e', 300_001n)).rejects.toMatchObject({ limit: 'session', group: null })
      expect(budget.left('images')).toEqual({ call: 200_000n, session: 100_000n, day: null })
      expect(budget.left()).toEqual({ call: 500_000n, session: 300_000n, day: null })
    })

    it('a charge stays with the group whose payment it is, whatever the key is used for later', async () => {
      const { budget, sign, answer } = composeGroups({ groups: { images: { day: '1' }, chat: { day: '1' } } })
      const call = { key: 'a', maximum: 400_000n, group: 'images' }
      await budget.reserve('a', 400_000n, 'images')
      sign(call)
      answer(call, 300_000n)
      await budget.reserve('a', 100_000n, 'chat')
      expect([budget.left('images').day, budget.left('chat').day]).toEqual([700_000n, 900_000n])
    })

    it('a signed payment of unknown outcome counts for its group on the next day, too', async () => {
      const { budget, sign, clock } = composeGroups({ groups: { images: { day: '1' } } })
      await budget.reserve('a', 600_000n, 'images')
      sign({ key: 'a', maximum: 600_000n })
      clock.now = Date.parse('2026-03-01T23:59:59Z')
      await expect(budget.reserve('b', 400_001n, 'images')).rejects.toBeInstanceOf(BudgetExceeded)
      clock.now += DAY_MS
      await budget.reserve('b', 1_000_000n, 'images')
    })

    it('refused payments that could be settled all the same count for their group', async () => {
      const { budget, sign, refuse } = composeGroups({
        groups: { images: { session: '0.4' }, chat: { session: '0.4' } },
      })
      for (const key of ['a', 'b', 'c', 'd']) {
        await budget.reserve(key, 100_000n, 'images')
        sign({ key, maximum: 100_000n })
        refuse({ key, maximum: 100_000n })
      }
      await expect(budget.reserve('e', 100_000n, 'images')).rejects.toMatchObject({ code: 'too_many_refused' })
      await budget.reserve('f', 100_000n, 'chat')
    })

    it('a name that every object has is a group like any other', async () => {
      const { budget } = composeGroups({ session: '1', groups: { chat: { session: '0.1' } } })
      await budget.reserve('a', 1_000_000n, 'constructor')
      expect(budget.left('__proto__').session).toBe(0n)
    })
  })

  describe('limits that change', () => {
    it('are asked for before each decision', async () => {
      let limits: BudgetLimits = { session: '1' }
      const { budget } = composeGroups(() => limits)
      await budget.reserve('a', 500_000n)
      limits = { session: '0.6' }
      await expect(budget.reserve('b', 100_001n)).rejects.toThrow('the session budget of 0.6 USDC has 0.1 USDC left')
      limits = { session: '2' }
      await budget.reserve('c', 1_500_000n)
    })

    it('refuse a payment that was reserved and does not fit any more, and leave room for the others', async () => {
      let limits: BudgetLimits = { session: '1' }
      const { budget, refuse } = composeGroups(() => limits)
      for (const key of ['a', 'b', 'c']) await budget.reserve(key, 300_000n)
      limits = { session: '0.6' }
      expect(() => budget.requireBudget('a', 300_000n)).toThrow(BudgetExceeded)
      refuse({ key: 'a', maximum: 300_000n })
      budget.requireBudget('b', 300_000n)
      budget.requireBudget('c', 300_000n)
    })

    it('refuse every payment while they cannot be read', async () => {
      const { budget } = composeGroups(() => {
        throw new Error('unreadable')
      })
      await expect(budget.reserve('a', 1n)).rejects.toThrow('unreadable')
      expect(() => budget.requireBudget('a', 1n)).toThrow('unreadable')
    })

    it('say how to allow a call, with the limit that it would fit into', async () => {
      const { budget } = composeGroups({ groups: { chat: { day: '0.5' } }, advice })
      await budget.reserve('a', 300_000n, 'chat')
      await expect(budget.reserve('b', 250_000n, 'chat')).rejects.toMatchObject({ advice: 'set day of chat to 0.55' })
    })
  })
})
