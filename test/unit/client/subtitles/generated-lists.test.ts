import { describe, expect, it } from 'vitest'
import { judgeList } from './support/judge-list.ts'
import { drawWordList } from './support/word-lists.ts'

const LISTS = 150

describe('generated word lists', () => {
  it('break no rule but those that their words force, and keep every word, by the independent checker', () => {
    let forced = 0
    let clean = 0
    for (let seed = 0; seed < LISTS; seed++) {
      const judgement = judgeList(drawWordList(seed))
      expect(judgement.problems, `seed ${seed}`).toEqual([])
      forced += judgement.forced
      if (judgement.forced === 0) clean++
    }
    // Both kinds of lists are drawn.
    expect(forced).toBeGreaterThan(LISTS)
    expect(clean).toBeGreaterThan(LISTS / 3)
  })
})
