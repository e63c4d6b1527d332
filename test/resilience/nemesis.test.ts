import { expect, test } from 'vitest'
import { FAULT_KINDS } from './nemesis/faults.ts'
import { runNemesis, trialSeeds } from './nemesis/run-nemesis.ts'
import { failuresOf } from './nemesis.ts'

test('keeps the five ledgers consistent and answers every client under random faults', async () => {
  const report = await runNemesis({
    seeds: trialSeeds(20_261_121, 12),
    kinds: FAULT_KINDS,
    stacks: 1,
    atOnce: 5,
    checkEvery: 12,
    stack: { approvedPayers: 4, sponsoredPayers: 2 },
  })
  expect(failuresOf(report)).toEqual([])
  expect(report.trials).toHaveLength(12)
  // Faults may cost some calls their result, but not many.
  expect(report.transfers).toBeGreaterThan(12)
})
