import { describe, expect, it } from 'vitest'
import { JOB_STATES, type JobState } from '#shared/jobs/job.ts'
import { isUnfinished, mayMove, statesBefore } from '#shared/jobs/transitions.ts'

/** Repeated here on purpose, so that a change of the table is deliberate. */
const MOVES: readonly (readonly [JobState, JobState])[] = [
  ['accepted', 'generating'],
  ['accepted', 'failed'],
  ['accepted', 'review'],
  ['generating', 'generating'],
  ['generating', 'generated'],
  ['generating', 'failed'],
  ['generating', 'review'],
  ['generated', 'settling'],
  ['generated', 'settlement_failed'],
  ['generated', 'review'],
  ['settling', 'completed'],
  ['settling', 'settlement_failed'],
  ['settling', 'review'],
  ['failed', 'accepted'],
  ['settlement_failed', 'generated'],
  ['settlement_failed', 'accepted'],
  ['settlement_failed', 'settling'],
]

const PAIRS = JOB_STATES.flatMap((from) => JOB_STATES.map((to) => [from, to] as const))

describe('job transitions', () => {
  it.each(PAIRS)('a job may move from %s to %s only when the table lists it', (from, to) => {
    expect(mayMove(from, to)).toBe(MOVES.some(([one, other]) => one === from && other === to))
  })

  it.each(PAIRS)('statesBefore lists %s before %s exactly when that move is allowed', (from, to) => {
    expect(statesBefore(to).includes(from)).toBe(mayMove(from, to))
  })

  it('a job never leaves completed or review', () => {
    for (const to of JOB_STATES) expect([mayMove('completed', to), mayMove('review', to)]).toEqual([false, false])
  })

  it('a job completes from settling only, and settles from generated or when its failed settlement succeeds', () => {
    expect([statesBefore('completed'), statesBefore('settling')]).toEqual([
      ['settling'],
      ['generated', 'settlement_failed'],
    ])
  })

  it('a job reaches another provider call only by a new acceptance, or directly from the previous call', () => {
    expect(statesBefore('generating')).toEqual(['accepted', 'generating'])
    expect(statesBefore('accepted')).toEqual(['failed', 'settlement_failed'])
  })

  it('only accepted, generating, generated and settling jobs are unfinished', () => {
    expect(JOB_STATES.filter(isUnfinished)).toEqual(['accepted', 'generating', 'generated', 'settling'])
  })
})
