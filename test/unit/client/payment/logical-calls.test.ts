import { describe, expect, it } from 'vitest'
import { createMemoryJournal } from '../../../../client/journal/memory-journal.ts'
import { LogicalCalls } from '../../../../client/payment/logical-calls.ts'

const HOUR_MS = 3_600_000

describe('keys of logical calls', () => {
  it('a request whose equal predecessor failed repeats that call', () => {
    const calls = new LogicalCalls(createMemoryJournal())
    const first = calls.begin('same')
    first.fail()
    expect(calls.begin('same').key).toBe(first.key)
  })

  it('a request whose equal predecessor succeeded or is under way is another call', () => {
    const calls = new LogicalCalls(createMemoryJournal())
    const first = calls.begin('same')
    const second = calls.begin('same')
    second.succeed()
    second.fail()
    const third = calls.begin('same')
    expect(new Set([first.key, second.key, third.key]).size).toBe(3)
  })

  it('50 failures of one call keep one key, also when each is reported twice', () => {
    const calls = new LogicalCalls(createMemoryJournal())
    const keys = Array.from({ length: 50 }, () => {
      const call = calls.begin('same')
      call.fail()
      call.fail()
      return call.key
    })
    expect(new Set(keys).size).toBe(1)
  })

  it('parallel equal calls that fail keep a key each', () => {
    const calls = new LogicalCalls(createMemoryJournal())
    const [first, second] = [calls.begin('same'), calls.begin('same')]
    first.fail()
    second.fail()
    expect([calls.begin('same').key, calls.begin('same').key].sort()).toEqual([first.key, second.key].sort())
  })

  it('an unfinished call of an earlier process is continued within a day, an answered one is not', () => {
    const clock = { now: 0 }
    const journal = createMemoryJournal(() => clock.now)
    const intend = (key: string, identity: string) =>
      journal.append({ phase: 'intended', key, identity, origin: '', method: 'POST', path: '', purpose: '', payer: '' })
    intend('left', 'a')
    intend('done', 'b')
    journal.append({
      phase: 'answered',
      key: 'done',
      charge: '1',
      transaction: null,
      receiptId: 'r',
      receiptToken: null,
    })
    intend('old', 'c')
    clock.now = 23 * HOUR_MS
    const calls = new LogicalCalls(journal, () => clock.now)
    expect(calls.begin('a').key).toBe('left')
    expect(calls.begin('a').key).not.toBe('left')
    expect(calls.begin('b').key).not.toBe('done')
    clock.now = 25 * HOUR_MS
    expect(calls.begin('c').key).not.toBe('old')
  })
})
