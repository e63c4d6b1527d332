import { expect, test } from 'vitest'
import { NOTHING_COMPARED } from '../stack/stack-report.ts'
import { selectPoints } from './fault-points.ts'
import type { MatrixReport } from './run-matrix.ts'
import type { Trial } from './run-trial.ts'
import { failuresOf, percentile, summarize } from './summarize.ts'

const [point] = selectPoints('worker.completeJob.commit.sent')
if (!point) throw new Error('unknown point')

const passed: Trial = { row: 'a', point, seed: 1, hit: true, calls: [], largestBatch: 2, recoveryMs: 10, error: null }
const report: MatrixReport = {
  trials: [passed],
  violations: [],
  stuckJobs: [],
  leftProcesses: [],
  jobs: 1,
  transfers: 1,
  upstreamCalls: 1,
  batches: NOTHING_COMPARED.batches,
  durationMs: 1,
  hasBlocks: true,
}

test('a kill matrix fails for a violation, stuck job, leftover process, unreached point, lonely payments or a failed trial', () => {
  expect(failuresOf(report)).toEqual([])
  const violation = { invariant: 'I1', jobId: 'j', detail: 'two charges', trial: 'a, seed 1' } as const
  expect(failuresOf({ ...report, violations: [violation] })).toEqual(['I1: two charges (job j, a, seed 1)'])
  expect(failuresOf({ ...report, stuckJobs: ['j'] })).toEqual(['job j never finished'])
  expect(failuresOf({ ...report, leftProcesses: [7] })).toEqual(['process 7 outlived its stack'])
  expect(failuresOf({ ...report, trials: [{ ...passed, hit: false }] })).toEqual(['a was never reached'])
  expect(failuresOf({ ...report, trials: [{ ...passed, error: 'broken' }] })).toEqual(['a: broken'])
  const alone = { ...report, trials: [{ ...passed, largestBatch: 1 }] }
  expect(failuresOf(alone)).toEqual(['a was never reached with several payments in a batch'])
  expect(failuresOf({ ...alone, hasBlocks: false })).toEqual([])
})

test('the summary counts the trials that reached a point', () => {
  const trials = [passed, { ...passed, hit: false, recoveryMs: null }, { ...passed, recoveryMs: 30 }]
  expect(failuresOf({ ...report, trials })).toEqual([])
  expect(summarize({ ...report, trials })).toMatchObject([{ trials: 3, hits: 2, recoveryP50Ms: 10, recoveryP99Ms: 30 }])
})

test('a percentile is the smallest value that at least this share of all values does not exceed', () => {
  expect(percentile([], 0.5)).toBeNull()
  expect(percentile([5], 0.99)).toBe(5)
  expect(percentile([3, 1, 2, 4], 0.5)).toBe(2)
  expect(percentile([3, 1, 2, 4], 0.99)).toBe(4)
})

test('a name selects every action at its point', () => {
  expect(selectPoints('worker.sealResult.before').map(({ action }) => action)).toEqual(['kill', 'stop'])
  expect(selectPoints('worker.sealResult.before (stop),worker.sealResult.before')).toHaveLength(2)
  expect(() => selectPoints('worker.nothing')).toThrow('unknown point')
  expect(selectPoints('quick').length).toBeGreaterThanOrEqual(24)
})
