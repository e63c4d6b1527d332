import { expect, test } from 'vitest'
import { runQueueWipe } from '../campaigns/queue-wipe.ts'

/** `npm run campaign -- queue-wipe --jobs 200` is the full run. */
const JOBS = 40

test('a queue that is lost while workers are busy loses no job: each is served and charged once', async () => {
  const report = await runQueueWipe({ jobs: JOBS, workers: 'running' })
  expect(report).toMatchObject({ completed: JOBS, upstreamCalls: JOBS, transfers: JOBS, violations: [] })
  expect(report.unfinished).toBeGreaterThan(JOBS / 2)
  expect(report.queued).toBeGreaterThan(0)
})
