import { describe, expect, test } from 'vitest'
import { budgetWithin, type Effort, effortWithin } from '../../../workers/providers/thinking.ts'

describe('the effort of a request', () => {
  test.each<[limit: number, lowest: Effort, highest: Effort | undefined, effort: Effort | undefined]>([
    [1, 'none', 'high', 'none'],
    [512, 'low', undefined, 'low'],
    [512, 'minimal', 'high', 'minimal'],
    [4095, 'low', 'max', 'low'],
    [4096, 'none', 'high', 'low'],
    [16_383, 'minimal', 'high', 'low'],
    [16_384, 'minimal', 'high', 'medium'],
    [32_767, 'low', undefined, 'medium'],
    [32_768, 'low', 'xhigh', 'xhigh'],
    [32_768, 'low', undefined, undefined],
    [65_536, 'none', 'none', 'none'],
    [20_000, 'low', 'minimal', 'minimal'],
    [512, 'medium', 'high', 'medium'],
  ])('with an output limit of %i, from %s to %s, is %s', (limit, lowest, highest, effort) => {
    expect(effortWithin(limit, { lowest, highest })).toBe(effort)
  })

  test('never falls while the output limit rises', () => {
    const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
    const ranks = Array.from({ length: 65 }, (_, step) =>
      efforts.indexOf(effortWithin(1 + step * 1024, { lowest: 'minimal', highest: 'max' }) ?? ''),
    )
    expect(ranks).toEqual(ranks.toSorted((left, right) => left - right))
  })
})

test.each([
  [512, 1024, { minimumTokens: 1, canBeOff: true }, 128],
  [512, 1024, { minimumTokens: 128, canBeOff: false }, 128],
  [100, 1024, { minimumTokens: 128, canBeOff: false }, 128],
  [512, 1024, { minimumTokens: 512, canBeOff: true }, 0],
  [2048, 1024, { minimumTokens: 512, canBeOff: true }, 512],
  [3, 1024, { minimumTokens: 1, canBeOff: true }, 0],
  [65_536, 0, { minimumTokens: 1, canBeOff: true }, 0],
  [65_536, 1024, { minimumTokens: 1, canBeOff: true }, 1024],
  [65_536, Number.POSITIVE_INFINITY, { minimumTokens: 1, canBeOff: true }, 16_384],
])(
  'leaves three quarters of a limit of %i to text: a budget of %d in the range %o becomes %i',
  (limit, budget, range, sent) => {
    expect(budgetWithin(limit, budget, range)).toBe(sent)
  },
)
