import { expect, test } from 'vitest'
import { faultKinds } from './nemesis/faults.ts'
import { runNemesis, trialSeeds } from './nemesis/run-nemesis.ts'
import { failuresOf } from './nemesis.ts'

test('faults drawn at random leave the five ledgers in agreement and every client with an answer', async () => {
  const report = await runNemesis({
    seeds: trialSeeds(20_261_121, 12),
    kinds: faultKinds,
    stacks: 1,
    atOnce: 5,
    checkEvery: 12,
    stack: { approvedPayers: 4, sponsoredPayers: 2 },
  })
  expect(failuresOf(report)).toEqual([])
  expect(report.trials).toHaveLength(12)
  // Faults may cost calls their result, but not many of them.
  expect(report.transfers).toBeGreaterThan(12)
})
