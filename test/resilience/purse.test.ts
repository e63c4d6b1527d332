import { expect, test } from 'vitest'
import { ATTACKS } from './purse/attacks.ts'
import { runPurse } from './purse/run-purse.ts'

test('bounds what attackers cost the operator and refuses no honest payer', async () => {
  const report = await runPurse({ seconds: 30, attacks: Object.keys(ATTACKS) })
  expect(report.violations).toEqual([])
  expect(report.during.calls).toBeGreaterThan(0)
  // Every attack was tried.
  const untried = Object.entries(report.attacks).filter(([, outcomes]) => Object.keys(outcomes).length === 0)
  expect(untried).toEqual([])
})
