import { expect, test } from 'vitest'
import { fuzzPayments } from './fuzz/fuzz-payments.ts'

/** Fixed, so that test runs are reproducible; `npm run fuzz` uses others. */
const SEED = 402
const RUNS = 300

test('rejects every mutated payment with a documented error, without a trace or an unexpected failure', async () => {
  const tally = await fuzzPayments({ runs: RUNS, seed: SEED })
  expect(Object.values(tally).reduce((sum, count) => sum + count, 0)).toBe(RUNS)
  // If all were rejected for one reason, the mutations would not reach the later checks.
  expect(Object.keys(tally)).toEqual(
    expect.arrayContaining([
      '400 invalid_payment_header',
      '402 payment_signature_invalid',
      '402 payment_terms_mismatch',
      '402 payment_amount_mismatch',
      '402 insufficient_funds',
    ]),
  )
})
