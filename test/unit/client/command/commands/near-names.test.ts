import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { editDistance, nearNames } from '../../../../../client/requests/near-names.ts'

const MODELS = ['textmodel-3.6-flash', 'textmodel-3.5-flash', 'textmodel-3.5-flash-lite', 'speechvendor/scribe-v2']

describe('editDistance', () => {
  it.each([
    ['', '', 0],
    ['abc', 'abc', 0],
    ['abc', '', 3],
    ['kitten', 'sitting', 3],
    ['talia', 'tlaia', 1],
    ['talia', 'tali', 1],
  ])('of %j and %j is %d', (from, to, distance) => {
    expect(editDistance(from, to)).toBe(distance)
  })

  it('is symmetric, zero only for equal texts, and at most the longer length', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), (one, other) => {
        const distance = editDistance(one, other)
        expect(distance).toBe(editDistance(other, one))
        expect(distance === 0).toBe(one === other)
        expect(distance).toBeLessThanOrEqual(Math.max(one.length, other.length))
        expect(distance).toBeGreaterThanOrEqual(Math.abs(one.length - other.length))
      }),
    )
  })
})

describe('nearNames', () => {
  it('suggests only the nearest name for a slip of the hand', () => {
    expect(nearNames('textmodel-3.6-flsh', MODELS)).toEqual(['textmodel-3.6-flash'])
  })

  it('suggests all names that contain a part, up to three, nearest first', () => {
    expect(nearNames('flash', MODELS)).toEqual([
      'textmodel-3.6-flash',
      'textmodel-3.5-flash',
      'textmodel-3.5-flash-lite',
    ])
  })

  it('ignores case', () => {
    expect(nearNames('SCRIBE-V2', MODELS)).toEqual(['speechvendor/scribe-v2'])
  })

  it('suggests nothing for a name that resembles none', () => {
    expect(nearNames('gpt-4o', MODELS)).toEqual([])
  })
})
