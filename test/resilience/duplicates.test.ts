import { expect, test } from 'vitest'
import { runDuplicates } from './duplicates.ts'

/** `npm run campaign -- duplicates --rounds 1000` is the full run. */
const ROUNDS = 10

test('20 simultaneous duplicates over two APIs are one provider call, one transfer and one answer', async () => {
  expect(await runDuplicates({ rounds: ROUNDS })).toMatchObject({
    rounds: ROUNDS,
    upstreamCalls: ROUNDS,
    transfers: ROUNDS,
    violations: [],
  })
})
