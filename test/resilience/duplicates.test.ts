import { expect, test } from 'vitest'
import { runDuplicates } from './duplicates.ts'

/** `npm run campaign -- duplicates --rounds 1000` is the full run. */
const ROUNDS = 10

test('answers 20 simultaneous duplicates at two APIs from one provider call and one transfer', async () => {
  expect(await runDuplicates({ rounds: ROUNDS })).toMatchObject({
    rounds: ROUNDS,
    upstreamCalls: ROUNDS,
    transfers: ROUNDS,
    violations: [],
  })
})
