import { expect, test } from 'vitest'
import { mutations } from './mutations/mutation-list.ts'
import { runMutations } from './mutations.ts'

/** One defence of the database and one of the code; `npm run campaign -- mutations` tries all of them. */
const QUICK = [
  'a payment nonce can be claimed twice (one_claim_per_nonce)',
  'the key of a staged upload is kept with the result',
]

test('the checker finds nothing while all defences stand, and reports each one that is taken away', async () => {
  const outcomes = await runMutations(mutations.filter(({ name }) => QUICK.includes(name)))
  expect(outcomes.map(({ mutation, sound, isProven }) => [mutation.name, sound.violations, isProven])).toEqual(
    QUICK.map((name) => [name, [], true]),
  )
})
