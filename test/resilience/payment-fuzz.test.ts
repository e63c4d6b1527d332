import { expect, test } from 'vitest'
import { fuzzPayments } from './fuzz/fuzz-payments.ts'

/** Fixed, so that a run of all tests is repeatable; `npm run fuzz` takes others. */
const SEED = 402
const RUNS = 300

test('a spoilt payment is refused in a documented way, leaves no trace, and is never an unexpected failure', async () => {
  const tally = await fuzzPayments({ runs: RUNS, seed: SEED })
  expect(Object.values(tally).reduce((sum, count) => sum + count, 0)).toBe(RUNS)
  // Were all refused for one reason, the mutations would not reach what lies behind it.
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
