import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Attempt, applyEntry } from '../../../client/journal/attempt.ts'
import type { NewEntry } from '../../../client/journal/entries.ts'
import type { WrittenEntry } from '../../../client/journal/file-entries.ts'
import { compactEntries } from '../../../client/journal/merge-files.ts'

const START = Date.parse('2026-11-22T00:00:00Z')
const NEVER = START - 1
const at = (second: number) => new Date(START + second * 1000).toISOString()
const key = fc.constantFrom('a', 'b')
const maximum = fc.constantFrom('5', '10', '20')
const model = fc.constantFrom(undefined, 'm1', 'm2')
const newEntry: fc.Arbitrary<NewEntry> = fc.oneof(
  fc.record({
    phase: fc.constant('intended' as const),
    key,
    origin: fc.constant('http://localhost'),
    method: fc.constant('POST'),
    path: fc.constantFrom('/v1/messages', '/v1/audio/speech'),
    identity: fc.constant('i'),
    purpose: fc.constantFrom('p', 'q'),
    payer: fc.constant('0x1'),
    model,
  }),
  fc.record({ phase: fc.constant('quoted' as const), key, maximum, expiresAt: fc.nat(99).map(at) }),
  fc.record({
    phase: fc.constant('signed' as const),
    key,
    maximum,
    deadline: fc.nat(99).map(at),
    payment: fc.constantFrom('x', 'y'),
  }),
  fc.record({ phase: fc.constant('refused' as const), key, status: fc.constant(503), code: fc.constant('c') }),
  fc.record({
    phase: fc.constant('answered' as const),
    key,
    charge: maximum,
    transaction: fc.constantFrom(null, '0xaa'),
    receiptId: fc.constantFrom(null, 'r1', 'r2'),
    receiptToken: fc.constant('t'),
    maximum: fc.constantFrom(undefined, '20'),
  }),
  fc.record({
    phase: fc.constant('verified' as const),
    key,
    receiptId: fc.constant('r1'),
    outcome: fc.constantFrom('passed' as const, 'failed' as const),
    problems: fc.constantFrom([], ['wrong']),
    model,
  }),
)
/** Entries of two processes, as their times interleave. */
const history = fc.array(fc.tuple(fc.constantFrom('one', 'other'), newEntry), { maxLength: 30 })
function written(entries: readonly (readonly [string, NewEntry])[]): readonly WrittenEntry[] {
  const lines = new Map<string, number>()
  return entries.map(([writer, entry], index) => {
    const line = lines.get(writer) ?? 0
    lines.set(writer, line + 1)
    return { entry: { ...entry, at: at(index) }, writer, line }
  })
}
function fold(entries: readonly WrittenEntry[]): ReadonlyMap<string, Attempt> {
  const attempts = new Map<string, Attempt>()
  for (const { entry, writer } of entries) attempts.set(entry.key, applyEntry(attempts.get(entry.key), entry, writer))
  return attempts
}
/** Compacts the entries of one process, and puts them back between those of the other. */
function compactOne(entries: readonly WrittenEntry[], now: number): readonly WrittenEntry[] {
  const kept = new Set(
    compactEntries(
      entries.filter(({ writer }) => writer === 'one'),
      now,
    ),
  )
  return entries.filter((each) => each.writer === 'other' || kept.has(each))
}
const withoutRefused = (attempts: ReadonlyMap<string, Attempt>) =>
  ['a', 'b'].map((each) => ({ ...attempts.get(each), refused: null }))
const refusedOf = (attempts: ReadonlyMap<string, Attempt>) => ['a', 'b'].map((each) => attempts.get(each)?.refused)

describe('compacting the entries of one process', () => {
  it('nothing that is known of any call changes, whatever another process wrote in between', () => {
    fc.assert(
      fc.property(history, (entries) => {
        const all = written(entries)
        expect(withoutRefused(fold(compactOne(all, START + 4_000_000)))).toEqual(withoutRefused(fold(all)))
      }),
      { numRuns: 2000 },
    )
  })

  it('payments that were refused are known as long as they could be settled', () => {
    fc.assert(
      fc.property(history, (entries) => {
        // Each call has one writer.
        const all = written(entries.map(([, entry]) => [entry.key === 'a' ? 'one' : 'other', entry]))
        expect(refusedOf(fold(compactOne(all, NEVER)))).toEqual(refusedOf(fold(all)))
      }),
      { numRuns: 500 },
    )
  })

  it('every charge without a receipt is kept', () => {
    const charge = { phase: 'answered', key: 'a', charge: '5', transaction: null, receiptId: null, receiptToken: null }
    const all = written(Array.from({ length: 3 }, () => ['one', charge as NewEntry] as const))
    expect(fold(compactEntries(all, START + 4_000_000)).get('a')?.charged).toBe(15n)
  })

  it('an answered call keeps its intent and its receipt, and no payment', () => {
    const all = written(
      [
        { phase: 'intended', key: 'a', origin: '', method: '', path: '', identity: '', purpose: '', payer: '' },
        { phase: 'quoted', key: 'a', maximum: '5', expiresAt: at(9) },
        { phase: 'signed', key: 'a', maximum: '5', deadline: at(9), payment: 'x' },
        { phase: 'answered', key: 'a', charge: '5', transaction: null, receiptId: 'r', receiptToken: 't' },
        { phase: 'verified', key: 'a', receiptId: 'r', outcome: 'passed', problems: [] },
      ].map((entry) => ['one', entry as NewEntry] as const),
    )
    const kept = compactEntries(all, START + 4_000_000)
    expect(kept.map(({ entry: { phase }, line }) => [phase, line])).toEqual([
      ['intended', 0],
      ['answered', 3],
      ['verified', 4],
    ])
  })
})
