import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Answer } from '../../../../client/farebox.ts'
import { PaidAnswers } from '../../../../client/mcp/call/paid-answers.ts'

const MOST = 100

function answer(size: number): Answer<string> {
  const payment = { key: 'k', maximum: '1', charged: '1', transaction: null, receiptId: null, receiptToken: null }
  // The quotation marks of JSON count too.
  const result = 'x'.repeat(Math.max(0, size - 2))
  return { result, payment: { ...payment, replayed: false, verified: 'passed', problems: [], recorded: true } }
}

describe('the paid answers of a session', () => {
  it('keeps the latest answers within its bound, and forgets the others oldest first', () => {
    const keys = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
    const step = fc.record({ key: keys, size: fc.integer({ min: 2, max: 60 }), isKept: fc.boolean() })
    const property = fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const answers = new PaidAnswers(MOST)
      const found: unknown[][] = []
      let model: { key: string; size: number }[] = []
      for (const { key, size, isKept } of steps) {
        const known = model.find((each) => each.key === key)
        const others = model.filter((each) => each.key !== key)
        if (isKept) {
          answers.keep(key, `identity of ${key}`, answer(size))
          model = [...others, { key, size }]
          while (model.reduce((sum, each) => sum + each.size, 0) > MOST) model.shift()
        } else {
          found.push([answers.get(key)?.identity, known === undefined ? undefined : `identity of ${key}`])
          model = known === undefined ? model : [...others, known]
        }
      }
      expect(found.map(([actual]) => actual)).toEqual(found.map(([, expected]) => expected))
      for (const key of 'abcdef') expect(answers.get(key) !== undefined).toBe(model.some((each) => each.key === key))
    })
    fc.assert(property)
  })

  it('does not keep an answer that is larger than its bound', () => {
    const answers = new PaidAnswers(MOST)
    answers.keep('a', 'identity', answer(MOST + 1))
    expect(answers.get('a')).toBeUndefined()
  })
})
