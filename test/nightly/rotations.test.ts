import { expect, test } from 'vitest'
import { runRotations } from '../resilience/rotations.ts'

/** `npm run campaign -- rotations` is the full run. */
const CALLS_PER_PHASE = 12
test('no call fails and every receipt verifies while a catalog is published, a deployment drained and every key rotated', async () => {
  const report = await runRotations({ callers: 4, callsPerPhase: CALLS_PER_PHASE })
  expect(report).toMatchObject({
    failed: [],
    refusedPayments: [],
    problems: [],
    receiptProblems: [],
    violations: [],
    stuckJobs: [],
    callsWhileDrained: 0,
    acceptedForEarlierKeys: 3,
    secretIds: ['k1', 'k2'],
  })
  expect(report.receipts).toBe(report.calls)
  expect(report.catalogVersions).toHaveLength(2)
  expect(report.recipients).toHaveLength(2)
  expect(report.facilitators).toHaveLength(2)
})
