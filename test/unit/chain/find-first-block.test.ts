import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findFirstBlock } from '#shared/adapters/chain/reading/find-first-block.ts'

/** A chain whose blocks have these times; counts how many blocks are read. */
function chainOf(timeOf: (block: bigint) => bigint) {
  const chain = {
    reads: 0,
    getBlock: async ({ blockNumber }: { blockNumber: bigint }) => {
      chain.reads += 1
      return { timestamp: timeOf(blockNumber) }
    },
  }
  return chain
}

describe('the first block at or after a time', () => {
  it('is found on any chain, and is the lowest one considered where that is later', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.bigInt(0n, 9n), { minLength: 1, maxLength: 60 }),
        fc.bigInt(-5n, 300n),
        fc.nat(),
        async (pauses, time, seed) => {
          let now = 0n
          const times = pauses.map((pause) => (now += pause))
          const lowest = seed % times.length
          const first = times.findIndex((each, index) => index >= lowest && each >= time)
          const found = await findFirstBlock(
            chainOf((block) => times[Number(block)] ?? 0n),
            time,
            BigInt(times.length - 1),
            BigInt(lowest),
          )
          expect(found).toBe(BigInt(first === -1 ? times.length : first))
        },
      ),
    )
  })

  it.each([
    ['a recent time', 79_999_000n, 0n, 4],
    ['a time before every block', 0n, 0n, 2],
    ['a time before the lowest block considered', 5000n, 39_995_000n, 2],
    ['a time after the head', 90_000_000n, 0n, 1],
  ])('takes few reads for %s on a chain with constant block time', async (_, time, lowest, reads) => {
    const chain = chainOf((block) => 2n * block)
    await findFirstBlock(chain, time, 40_000_000n, lowest)
    expect(chain.reads).toBeLessThanOrEqual(reads)
  })
})
