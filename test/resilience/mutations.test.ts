import { expect, test } from 'vitest'
import { mutations } from './mutations/mutation-list.ts'
import { runMutations } from './mutations.ts'

/** One safeguard of the database and one of the code; `npm run campaign -- mutations` removes each of them. */
const QUICK = [
  'a payment nonce can be claimed twice (one_claim_per_nonce)',
  'sealing a result does not erase the key of its upload',
]

test('the checker reports every removed safeguard, and nothing while all are in place', async () => {
  const outcomes = await runMutations(mutations.filter(({ name }) => QUICK.includes(name)))
  expect(outcomes.map(({ mutation, sound, isProven }) => [mutation.name, sound.violations, isProven])).toEqual(
    QUICK.map((name) => [name, [], true]),
  )
})
