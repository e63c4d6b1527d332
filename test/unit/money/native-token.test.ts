import { expect, it } from 'vitest'
import { usdcOfWei } from '#shared/money/native-token.ts'

it.each([
  ['one token', 10n ** 18n, 4000, 4_000_000_000n],
  ['a settlement by permit at 0.01 gwei', 177_000n * 10n ** 7n, 4000, 7080n],
  ['a reverted settlement at 5 gwei', 196_006n * 5n * 10n ** 9n, 4000, 3_920_120n],
  ['a price with cents', 10n ** 18n, 1.25, 1_250_000n],
  ['less than an atomic unit, rounded up', 1n, 4000, 1n],
  ['nothing', 0n, 4000, 0n],
])('converts %s to atomic USDC', (_, wei, price, expected) => {
  expect(usdcOfWei(wei, price)).toBe(expected)
})
