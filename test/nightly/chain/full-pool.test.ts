import { expect, test } from 'vitest'
import { runPool } from '../../resilience/pool.ts'

/** `npm run campaign -- pool` is the full run: 20 calls a second for a minute. */
const SECONDS = 6
const RATE = 10
/** No call of a client of the node is refused for their number: reads would be as well. */
const UNLIMITED = Number.POSITIVE_INFINITY

test.each([
  ['through the contract', true],
  ['by the key', false],
])(
  'settles every call %s, each with at most two sends, at a node that holds sixteen transactions of a key',
  async (_, settlementContract) => {
    const report = await runPool({ seconds: SECONDS, rate: RATE, callsPerSecond: UNLIMITED, settlementContract })
    expect(report).toMatchObject({ results: SECONDS * RATE, charges: SECONDS * RATE, refusedSends: 0, violations: [] })
  },
)
