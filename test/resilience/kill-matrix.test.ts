import { expect, test } from 'vitest'
import { haveS3 } from '../support/processes/s3-server.ts'
import { selectPoints } from './kill-matrix/fault-points.ts'
import { runMatrix } from './kill-matrix/run-matrix.ts'
import { failuresOf, summarize } from './kill-matrix/summarize.ts'

/** Every other point, to keep the test short; `npm run campaign -- kill-matrix` runs all, many times. */
const points = selectPoints('quick').filter((_, index) => index % 2 === 0)

test('charges at most once and loses no charged result when a process is killed at any point of a paid call', async () => {
  expect(points.length).toBeGreaterThanOrEqual(12)
  const report = await runMatrix({
    points,
    trials: 1,
    seed: 1,
    stacks: 1,
    checkEvery: points.length,
    atOnce: 12,
    stack: { approvedPayers: 4, sponsoredPayers: 2, on: haveS3() ? ['s3'] : [] },
  })
  expect(failuresOf(report)).toEqual([])
  expect(summarize(report).map(({ hits }) => hits)).toEqual(points.map(() => 1))
  // Without paid calls there would be no violation either.
  expect(report.transfers).toBeGreaterThanOrEqual(points.length)
})
