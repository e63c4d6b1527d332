import fc from 'fast-check'
import { expect, it } from 'vitest'
import { shareOfGas } from '#shared/adapters/chain/settlement-contract/share-of-gas.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'

const spent = (gasUsed: bigint, cost: bigint) => ({ gasUsed, effectiveGasPrice: 7n, cost: atomicAmount(cost) })
const amount = fc.bigInt(0n, 10n ** 9n)
const only = (count: number, position: number) => Array.from({ length: count }, (_, index) => index === position)

it('divides all of the gas and all of its cost, whatever the weights are', () => {
  fc.assert(
    fc.property(amount, amount, fc.array(amount, { minLength: 1, maxLength: 100 }), (gasUsed, cost, weights) => {
      const parts = weights.map((_, position) =>
        shareOfGas(spent(gasUsed, cost), weights, only(weights.length, position)),
      )
      expect(parts.reduce((sum, part) => sum + part.gasUsed, 0n)).toBe(gasUsed)
      expect(parts.reduce((sum, part) => sum + part.cost, 0n)).toBe(cost)
      expect(parts.every((part) => part.gasUsed >= 0n && part.cost >= 0n)).toBe(true)
    }),
  )
})

it('divides in proportion to the weights, rounded by less than one', () => {
  expect([0, 1, 2].map((position) => shareOfGas(spent(1000n, 11n), [1n, 2n, 7n], only(3, position)))).toEqual([
    { gasUsed: 100n, effectiveGasPrice: 7n, cost: 1n },
    { gasUsed: 200n, effectiveGasPrice: 7n, cost: 2n },
    { gasUsed: 700n, effectiveGasPrice: 7n, cost: 8n },
  ])
})

it('divides equally while no weight is known, and gives nothing to a payment that is not in the batch', () => {
  expect(shareOfGas(spent(10n, 4n), [0n, 0n], [true, false])).toMatchObject({ gasUsed: 5n, cost: 2n })
  expect(shareOfGas(spent(10n, 4n), [1n, 1n], [false, false])).toMatchObject({ gasUsed: 0n, cost: 0n })
  expect(shareOfGas(spent(10n, 4n), [], [])).toMatchObject({ gasUsed: 0n, cost: 0n })
})
