import { expect, test } from 'vitest'
import { quickKinds, runNemesis, trialSeeds } from '../campaigns/nemesis/run-nemesis.ts'
import { failuresOf } from '../campaigns/nemesis.ts'

test('faults drawn at random leave the five ledgers in agreement and every client with an answer', async () => {
  const report = await runNemesis({
    seeds: trialSeeds(20_261_121, 20),
    kinds: quickKinds,
    stacks: 1,
    atOnce: 5,
    checkEvery: 20,
    stack: { approvedPayers: 4, sponsoredPayers: 2 },
  })
  expect(failuresOf(report)).toEqual([])
  expect(report.trials).toHaveLength(20)
  // Faults may cost calls their result, but not many of them.
  expect(report.transfers).toBeGreaterThan(20)
})
