import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Budget, RESERVATION_MS } from '../../../../client/budget/budget.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import { formatUsdc } from '../../../../client/budget/usdc.ts'
import { createMemoryJournal } from '../../../../client/journal/memory-journal.ts'

const NOON = Date.parse('2026-03-01T12:00:00Z')
const DAY_MS = 86_400_000

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

describe('the budget', () => {
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
