import { expect, test } from 'vitest'
import { runRestore } from './restore.ts'

/** `npm run campaign -- restore --calls 200` is the full run. */
const CALLS = 30

test('charges nobody twice, and tells nobody that nothing was charged, after a restore from a backup', async () => {
  const report = await runRestore({ calls: CALLS })
  expect(report).toMatchObject({ settledBefore: CALLS, chargedTwice: [], toldNone: [], violations: [] })
  // The calls after the backup are lost at least.
  expect(report.lost).toBeGreaterThanOrEqual(CALLS / 3)
})
