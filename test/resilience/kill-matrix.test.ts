import { expect, test } from 'vitest'
import { selectPoints } from './kill-matrix/fault-points.ts'
import { runMatrix } from './kill-matrix/run-matrix.ts'
import { failuresOf, summarize } from './kill-matrix/summarize.ts'

/** Every other one, so that the tests stay short; `npm run campaign -- kill-matrix` runs all, many times. */
const points = selectPoints('quick').filter((_, index) => index % 2 === 0)

test('a process killed at any point of a paid call charges nobody twice and loses no charged result', async () => {
  expect(points.length).toBeGreaterThanOrEqual(12)
  const report = await runMatrix({
    points,
    trials: 1,
    seed: 1,
    stacks: 1,
    checkEvery: points.length,
    atOnce: 12,
    stack: { approvedPayers: 4, sponsoredPayers: 2 },
  })
  expect(failuresOf(report)).toEqual([])
  expect(summarize(report).map(({ hits }) => hits)).toEqual(points.map(() => 1))
  // A campaign in which nobody pays would see no violation either.
  expect(report.transfers).toBeGreaterThanOrEqual(points.length)
})
