import { expect, test } from 'vitest'
import { NOTHING_COMPARED } from '../stack/stack-report.ts'
import { batchFailures } from './batch-summary.ts'
import type { Trial } from './run-trial.ts'

const trial: Trial = { seed: 1, faults: [], met: [], calls: [], recoveryMs: 0, error: null }
const batches = { ...NOTHING_COMPARED.batches, mined: { 1: 4, 3: 2 } }

test('a nemesis of batches fails when hardly any payments shared one', () => {
  expect(batchFailures({ trials: [trial], batches }, ['batch_reorg'])).toEqual([])
  const alone = { ...batches, mined: { 1: 35, 2: 1 } }
  expect(batchFailures({ trials: [trial], batches: alone }, ['batch_reorg'])).toEqual([
    'only 5 % of the payments shared a batch; use --blocks, and more time between blocks',
  ])
})

test('a nemesis of batches fails when a fault never met a batch of several payments', () => {
  const drawn = Array.from({ length: 6 }, () => ({ kind: 'batch_reorg' as const, sizes: [1] }))
  expect(batchFailures({ trials: [{ ...trial, met: drawn }], batches }, ['batch_reorg', 'gas_spike'])).toEqual([
    'batch_reorg never met a batch of several payments',
  ])
  const met = [...drawn, { kind: 'batch_reorg' as const, sizes: [1, 2] }]
  expect(batchFailures({ trials: [{ ...trial, met }], batches }, ['batch_reorg'])).toEqual([])
})
