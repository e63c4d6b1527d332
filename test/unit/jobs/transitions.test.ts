import { describe, expect, it } from 'vitest'
import { type JobState, jobStates } from '#shared/jobs/job.ts'
import { isUnfinished, mayMove, statesBefore } from '#shared/jobs/transitions.ts'

/** Written out a second time on purpose: a change of the table must be meant. */
const moves: readonly (readonly [JobState, JobState])[] = [
  ['accepted', 'generating'],
  ['accepted', 'failed'],
  ['generating', 'generating'],
  ['generating', 'generated'],
  ['generating', 'failed'],
  ['generated', 'settling'],
  ['generated', 'settlement_failed'],
  ['settling', 'completed'],
  ['settling', 'settlement_failed'],
  ['settling', 'review'],
  ['failed', 'accepted'],
  ['settlement_failed', 'generated'],
  ['settlement_failed', 'accepted'],
]

const pairs = jobStates.flatMap((from) => jobStates.map((to) => [from, to] as const))

describe('a job', () => {
  it.each(pairs)('moves from %s to %s exactly when that is in the table', (from, to) => {
    expect(mayMove(from, to)).toBe(moves.some(([one, other]) => one === from && other === to))
  })

  it.each(pairs)('finds %s before %s exactly when it may move so', (from, to) => {
    expect(statesBefore(to).includes(from)).toBe(mayMove(from, to))
  })

  it('never leaves completed or review', () => {
    for (const to of jobStates) expect([mayMove('completed', to), mayMove('review', to)]).toEqual([false, false])
  })

  it('is completed from settling alone, and settling from generated alone', () => {
    expect([statesBefore('completed'), statesBefore('settling')]).toEqual([['settling'], ['generated']])
  })

  it('gets back to a provider call by a fresh acceptance, or from one call to the next without another state between', () => {
    expect(statesBefore('generating')).toEqual(['accepted', 'generating'])
    expect(statesBefore('accepted')).toEqual(['failed', 'settlement_failed'])
  })

  it('that is unfinished can move, and never waits for a payer', () => {
    expect(jobStates.filter(isUnfinished)).toEqual(['accepted', 'generating', 'generated', 'settling'])
  })
})
