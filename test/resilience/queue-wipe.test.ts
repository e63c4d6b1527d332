import { expect, test } from 'vitest'
import { haveRedis } from '../support/processes/redis-server.ts'
import { runQueueWipe } from './queue-wipe.ts'

/** `npm run campaign -- queue-wipe --jobs 200` is the full run. */
const JOBS = 40

for (const queue of ['postgres', 'redis'] as const)
  test.skipIf(queue === 'redis' && !haveRedis())(
    `serves and charges every job once when the queue in ${queue} is lost while workers are busy`,
    async () => {
      const report = await runQueueWipe({ jobs: JOBS, workers: 'running', queue })
      expect(report).toMatchObject({ completed: JOBS, upstreamCalls: JOBS, transfers: JOBS, violations: [] })
      expect(report.unfinished).toBe(JOBS)
      expect(report.queued).toBeGreaterThan(0)
    },
  )
